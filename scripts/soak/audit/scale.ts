import { partOf, type Span } from "../faults/spans.ts";
import type { MovedSwitch, RefreshRace } from "../traffic/commuter.ts";
import { type Verdict, verdict } from "./verdict.ts";

/** The outcome of a probe that sends more concurrent calls than a limit allows, alternating between processes. */
export type LimitFact = { what: string; limit: number; admitted: number; refused: number; failed: number };
/** The outcome of starting a sweep (a cleanup) while another server was running the same one. */
export type SweeperFact = { name: string; isGuarded: boolean; secondError: string | null };

/** The duration of traffic after which the fault plan has had time to kill each process. */
const everyProcessMs = 10 * 60_000;

const named = ({ at, actor, detail }: { at: number; actor: string; detail: string }) =>
  `${new Date(at).toISOString()} ${actor}: ${detail}`;

/** Checks that no session was lost when two web servers refreshed it concurrently. */
export function judgeRaces(races: readonly RefreshRace[]): Verdict {
  const both = races.filter(({ renewedBy }) => renewedBy > 1).length;
  const doubtful = races.filter(({ outcome }) => outcome === "doubtful").length;
  return verdict("a refresh in two servers at once keeps the session", {
    figures: `${races.length} refreshes, ${both} answered with a new token by both, ${doubtful} without an answer`,
    failures: races.filter(({ outcome }) => outcome === "lost").map(named),
  });
}

/** Checks that every account switch that began on one server and finished on another led to the selected account. */
export function judgeMoves(moves: readonly MovedSwitch[]): Verdict {
  const doubtful = moves.filter(({ outcome }) => outcome === "doubtful").length;
  return verdict("a switch begun on one server finishes on another", {
    figures: `${moves.length} switches, ${doubtful} without an answer`,
    failures: moves.filter(({ outcome }) => outcome === "lost").map(named),
  });
}

/** Checks that concurrent calls to several processes are admitted exactly as often as the limit allows. */
export function judgeLimits(limits: readonly LimitFact[]): Verdict {
  return verdict("limits are counted across processes", {
    figures: limits
      .map(({ what, limit, admitted, refused }) => `${what}: ${admitted} of ${limit} admitted, ${refused} refused`)
      .join("; "),
    failures: limits
      .filter(({ limit, admitted, failed }) => admitted !== limit || failed > 0)
      .map(
        ({ what, limit, admitted, failed }) =>
          `${what}: ${admitted} were admitted, ${limit} are allowed; ${failed} failed`,
      ),
  });
}

/** Checks that a sweep (a cleanup) returns immediately while another server is running the same one. */
export function judgeSweepers(sweepers: readonly SweeperFact[]): Verdict {
  return verdict("one sweeper at a time", {
    figures: `${sweepers.length} sweeps, each twice`,
    failures: sweepers.flatMap(({ name, isGuarded, secondError }) => [
      ...(isGuarded ? [] : [`${name} holds no lock against a second one`]),
      ...(secondError === null ? [] : [`${name} while another one runs: ${secondError}`]),
    ]),
  });
}

/** Counts how often each process was killed. After ten minutes, each process must have been killed at least once. */
export function judgeKills(
  spans: readonly Span[],
  { services, trafficMs }: { services: readonly string[]; trafficMs: number },
): Verdict {
  const kills = new Map(
    services.map((service) => [service, spans.filter(({ kind }) => kind.startsWith(`${service} SIG`)).length]),
  );
  const spared = trafficMs >= everyProcessMs ? [...kills].filter(([, count]) => count === 0) : [];
  return verdict("each process was killed", {
    figures: [...kills].map(([service, count]) => `${service} ×${count}`).join(", "),
    failures: spared.map(([service]) => `${service} was never killed`),
  });
}

const killable = ["web", "functions", "pgbouncer", "identity", "gateway", "postgres"];

/** Returns the services of a stack that the fault plan can kill. */
export function killableOf(services: readonly string[]): string[] {
  return services.filter((service) => killable.includes(partOf(service)));
}
