import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { PlannedFault } from "../faults/plan.ts";
import { partOf, type Span } from "../faults/spans.ts";
import type { Journal } from "../journal.ts";
import { type Sampler, sampled } from "../samples.ts";
import { longestCallSeconds, type SoakStack } from "../stack.ts";
import type { Traffic } from "../traffic/traffic.ts";
import type { TruthReader } from "../truth.ts";
import type { World } from "../world.ts";
import { judgeAccounts, judgeEnded } from "./accounts.ts";
import { type Amount, judgeAmounts } from "./amounts.ts";
import { judgeAnswers, judgeFaults, judgeFindings } from "./answers.ts";
import { judgeBooks, judgeBudgets, judgeCharges, judgeReports } from "./charges.ts";
import { readBooks, readBudgets, readImports, readReports, readRuns, waitUntilSettled } from "./collect.ts";
import { openAccounts, probeEnded } from "./collect-accounts.ts";
import { probeAll } from "./collect-probes.ts";
import { probePasswordLimit, probeRequestLimit, probeSweepers } from "./collect-scale.ts";
import { judgeImports } from "./imports.ts";
import { judgeLogs, logLines } from "./logs.ts";
import { judgeProcesses } from "./processes.ts";
import { judgeConnections, judgeMemory } from "./resources.ts";
import { judgeKills, judgeLimits, judgeMoves, judgeRaces, judgeSweepers, killableOf } from "./scale.ts";
import { judgeSwitches, streamsOver, switchesOf } from "./switches.ts";
import { judgeProbes, type Verdict, verdict } from "./verdict.ts";

export type Audited = {
  stack: SoakStack;
  world: World;
  traffic: Traffic;
  journal: Journal;
  spans: Span[];
  truth: TruthReader;
  sampler: Sampler;
  /** The faults that should have happened. */
  planned: readonly PlannedFault[];
  trafficMs: number;
};

/**
 * A call to a provider that hangs may last as long as any call. The sweeper runs every 15 s, and closes runs that had no
 * heartbeat for 45 s. The rest is slack.
 */
const settleLimitMs = longestCallSeconds * 1_000 + 75_000;
const logged = ["functions", "web", "identity", "gateway", "notes", "postgres", "provider", "pgbouncer", "balancer"];

/** Runs every check once traffic has ended. A check whose facts can't be collected fails. */
export async function audit(audited: Audited): Promise<Verdict[]> {
  const { stack, world, traffic, journal, spans, truth, sampler, planned, trafficMs } = audited;
  const verdicts: Verdict[] = [];
  const amounts: Amount[] = [];
  /** `least` is the minimum for 50 s of traffic. */
  const grows = (what: string, count: number, least: number) => amounts.push({ what, count, least, grows: true });
  const stays = (what: string, count: number, least: number) => amounts.push({ what, count, least, grows: false });
  async function check(name: string, judge: () => Promise<Verdict | Verdict[]>): Promise<void> {
    try {
      verdicts.push(...[await judge()].flat());
    } catch (error) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      verdicts.push(verdict(name, { figures: "could not be judged", failures: [text] }));
    }
  }
  await check("runs settle", async () => {
    await waitUntilSettled(world, { limitMs: settleLimitMs });
    const budgets = await readBudgets(world);
    stays("budgets and envelopes", budgets.length, 5);
    return [...judgeBooks(await readBooks(world)), judgeBudgets(budgets)];
  });
  await check("charges", async () => {
    const [runs, calls] = [await readRuns(world), await truth.finish()];
    grows("runs", runs.length, 60);
    grows("runs with the provider's counts", runs.filter(({ usageSource }) => usageSource === "provider").length, 30);
    grows("provider calls", calls.length, 60);
    const attempts = traffic.asks.flatMap((ask) => ask.attempts);
    grows("answers that name their run", attempts.filter(({ told }) => told !== null).length, 50);
    grows("idempotency keys", traffic.asks.filter(({ idempotencyKey }) => idempotencyKey !== null).length, 50);
    return judgeCharges({ runs, calls, asks: traffic.asks, spans });
  });
  await check("reports", async () => {
    const reports = await readReports(world);
    stays("reports with requests", reports.filter(({ said }) => said.requests > 0).length, 2);
    return judgeReports(reports);
  });
  await check("imports", async () => {
    const { costs, invoices } = traffic.importer;
    grows("costs", costs.filter(({ observations }) => observations.some(({ accepted }) => accepted)).length, 3);
    stays("invoices", invoices.length, 1);
    return judgeImports({ costs, invoices, ...(await readImports(world)) });
  });
  await check("accounts", async () => {
    const accounts = await openAccounts(world, traffic.households);
    stays("accounts opened", accounts.filter(({ opened }) => opened).length, 3);
    return judgeAccounts(accounts);
  });
  await check("ended sessions", async () => {
    const ended = await probeEnded(world, traffic);
    stays("ended sessions", ended.length, 2);
    return judgeEnded(ended);
  });
  await check("answers", async () => {
    const { answers, findings } = journal;
    grows("answers", answers.filter(({ status }) => status !== null).length, 200);
    return [judgeAnswers(answers, spans), judgeFindings(findings), judgeFaults(spans, planned)];
  });
  const switches = switchesOf(spans);
  if (switches.length > 0) {
    await check("lost primaries", async () => {
      const runIds = new Set((await readRuns(world)).map(({ id }) => id));
      stays("streams in progress", switches.flatMap((span) => streamsOver(traffic.asks, span)).length, 1);
      return judgeSwitches({ spans, answers: journal.answers, asks: traffic.asks, runIds });
    });
  }
  await check("processes", async () => judgeProcesses(sampler.pids, spans));
  await check("memory", async () => {
    const { samples } = sampler;
    for (const name of sampled)
      grows(`samples of ${name}`, samples.filter(({ service }) => service === name).length, 8);
    return judgeMemory(samples);
  });
  await check("connections", async () => {
    const before = sampler.connections.length;
    await sampler.takeConnections();
    const { connections, samples } = sampler;
    return judgeConnections({ connections, samples, atRest: connections.slice(before) });
  });
  await check("logs", async () => {
    const lines = readLogs(path.join(stack.dataDir, "logs"));
    grows("log lines", lines.length, 100);
    return judgeLogs(lines, spans);
  });
  if (world.commuters.length > 0) {
    await check("several servers", async () => {
      const [races, moves] = [
        traffic.commuters.flatMap(({ races }) => races),
        traffic.commuters.flatMap(({ moves }) => moves),
      ];
      grows("refreshes by two servers", races.filter(({ renewedBy }) => renewedBy > 1).length, 2);
      grows("switches between servers", moves.filter(({ outcome }) => outcome === "arrived").length, 2);
      const services = killableOf(stack.read().services.map(({ name }) => name));
      return [
        judgeRaces(races),
        judgeMoves(moves),
        judgeKills(spans, { services, trafficMs: planned.length > 0 ? trafficMs : 0 }),
      ];
    });
    await check("limits across processes", async () =>
      judgeLimits([await probePasswordLimit(world), await probeRequestLimit(world)]),
    );
    await check("sweepers", async () => judgeSweepers(await probeSweepers(world)));
  }
  await check("works after all of it", async () => {
    const probes = await probeAll(world);
    stays("things tried afterwards", probes.length, 7);
    return judgeProbes(probes);
  });
  verdicts.push(judgeAmounts(amounts, trafficMs));
  return verdicts;
}

function readLogs(directory: string) {
  return readdirSync(directory)
    .filter((file) => logged.includes(partOf(path.basename(file, ".log"))))
    .flatMap((file) => logLines(path.basename(file, ".log"), readFileSync(path.join(directory, file), "utf8")));
}
