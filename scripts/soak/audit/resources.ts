import { partOf } from "../faults/spans.ts";
import type { ConnectionSample, Sample } from "../samples.ts";
import { type Verdict, verdict } from "./verdict.ts";

/** Megabytes (docs/capacity.md). The platform kills functions at 256; of the others, what a small server has. */
export const mostRssMb: Record<string, number> = { functions: 200, web: 512, identity: 512, gateway: 512, notes: 512 };
/** Of a process's time, its warm-up: a heap is enlarged before it is cleaned, until it is as large as the work asks for. */
const warmUpPart = 1 / 3;
/** Of what is shorter nobody can say whether it grows. */
const shortestMs = 4 * 60_000;
/** What a process may grow by in the time that it was watched after its warm-up. */
export const mostGrowthMb = 25;
/** How much higher its peak of the last third may be than that of before: heaps are sawteeth, whose tops vary. */
const mostPeakMb = 10;
/** Connections that a role may hold: what its pools add up to. */
export const mostConnections: Record<string, number> = { gateway: 80, authenticator: 30, supabase_auth_admin: 15 };
const mostFilesMore = 60;

/** No process is too large, and none grows. */
export function judgeMemory(samples: readonly Sample[]): Verdict {
  const failures: string[] = [];
  const figures: string[] = [];
  for (const [service, all] of Map.groupBy(samples, ({ service }) => service)) {
    const peak = Math.max(...all.map(({ rssMb }) => rssMb));
    const limit = mostRssMb[partOf(service)] ?? Number.POSITIVE_INFINITY;
    if (peak > limit) failures.push(`${service} had ${peak.toFixed(0)} MB, ${limit} are allowed`);
    const growths = [...Map.groupBy(all, ({ pid }) => pid).values()].flatMap((process) => growthOf(process) ?? []);
    const growth = growths.length > 0 ? Math.max(...growths) : undefined;
    if (growth !== undefined && growth > mostGrowthMb) {
      failures.push(`${service} grew by ${growth.toFixed(0)} MB, ${mostGrowthMb} are allowed`);
    }
    figures.push(`${service} ≤ ${peak.toFixed(0)} MB${growth === undefined ? "" : ` (${signed(growth)})`}`);
  }
  return verdict("memory flat", { figures: figures.join(", "), failures });
}

const signed = (mb: number) => `${mb >= 0 ? "+" : ""}${mb.toFixed(0)} MB`;

/**
 * Growth of one process by the line that fits its samples best, over the time after its warm-up; undefined where that is
 * short. A heap that was last cleaned early in that time and is full at its end has grown by nothing: its peak would have.
 */
export function growthOf(samples: readonly Sample[]): number | undefined {
  const [first, last] = [samples[0]?.at ?? 0, samples.at(-1)?.at ?? 0];
  const warm = samples.filter(({ at }) => at - first >= (last - first) * warmUpPart);
  const lastsMs = (warm.at(-1)?.at ?? 0) - (warm[0]?.at ?? 0);
  if (lastsMs < shortestMs) return undefined;
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [atMean, mbMean] = [mean(warm.map(({ at }) => at)), mean(warm.map(({ rssMb }) => rssMb))];
  const covariance = warm.reduce((sum, { at, rssMb }) => sum + (at - atMean) * (rssMb - mbMean), 0);
  const variance = warm.reduce((sum, { at }) => sum + (at - atMean) ** 2, 0);
  const growth = (covariance / variance) * lastsMs;
  const lastThird = last - (last - first) / 3;
  const peak = (part: readonly Sample[]) => Math.max(...part.map(({ rssMb }) => rssMb));
  const higher = peak(samples.filter(({ at }) => at >= lastThird)) - peak(samples.filter(({ at }) => at < lastThird));
  return higher > mostPeakMb ? growth : Math.min(growth, 0);
}

/** No role holds more connections than its pools, none is left in a transaction, and no process keeps files open. */
export function judgeConnections({
  connections,
  samples,
  atRest,
}: {
  connections: readonly ConnectionSample[];
  samples: readonly Sample[];
  /** After the traffic's end. */
  atRest: readonly ConnectionSample[];
}): Verdict {
  const failures: string[] = [];
  const figures: string[] = [];
  for (const [role, all] of Map.groupBy(connections, ({ role }) => role)) {
    const peak = Math.max(...all.map(({ connections: count }) => count));
    const limit = mostConnections[role];
    if (limit === undefined) continue;
    figures.push(`${role} ≤ ${peak}`);
    if (peak > limit) failures.push(`${role} held ${peak} connections, its pools have ${limit}`);
  }
  for (const { role, idleInTransaction } of atRest) {
    if (idleInTransaction > 0) failures.push(`${idleInTransaction} connections of ${role} are left in a transaction`);
  }
  for (const [service, all] of Map.groupBy(samples, ({ service }) => service)) {
    const [first, last] = [Math.max(...all.slice(0, 15).map(({ files }) => files)), all.at(-1)?.files ?? 0];
    if (last > first + mostFilesMore)
      failures.push(`${service} holds ${last} files and sockets, after ${first} at its start`);
  }
  return verdict("connections not leaking", { figures: figures.join(", "), failures });
}
