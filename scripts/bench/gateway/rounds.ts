import type pg from "pg";
import type { Plan } from "../options.ts";
import { readTree } from "../process-tree.ts";
import type { Progress } from "../progress.ts";
import { quantile, quantilesOf } from "../statistics.ts";
import { readUpstream } from "../upstream/upstream.ts";
import { countCancelled, readBooks, untilSettled } from "./books.ts";
import { clearBacklog } from "./database-state.ts";
import { closedLoopBy, runClosedLoop, runOpenLoop, runStreams } from "./load.ts";
import {
  addSample,
  type GatewayMeasurements,
  type LatencySample,
  type LeavingSample,
  type StreamSample,
  samplesOf,
  type ThroughputSample,
} from "./measurements.ts";
import type { Target } from "./targets.ts";

export type RoundContext = {
  plan: Plan;
  /** Ours first. */
  targets: readonly Target[];
  upstream: { url: string };
  client: pg.Client;
  superuser: pg.Client;
  ownerId: string;
  postgresPid: number;
  signal: AbortSignal;
  begin: Progress["begin"];
  complain: (text: string) => void;
};

/** Of a closed loop's requests: with more, what is measured is something else. */
const mostFailedShare = 0.01;

export function emptyMeasurements(): GatewayMeasurements {
  return { latency: {}, throughput: {}, streams: {}, leaving: [], rss: [], closedLoopBy };
}

/** How many steps a round has, for those who wait. */
export function stepsOfRound(plan: Plan, targets: number): number {
  return targets * (2 + plan.closedLoop.connections.length) + 2;
}

/**
 * Has every gateway answer all kinds of load for a while before anything counts, as one in production has, and with it
 * the upstream.
 */
export async function warmUpTargets({ plan, targets, client, signal, begin }: RoundContext): Promise<void> {
  const { connections } = plan.closedLoop;
  for (const target of targets) {
    if (target.name === "bare") continue;
    const call = target.spread;
    begin(`before the rounds, ${target.label}`);
    for (const each of connections) {
      const durationMs = plan.firstWarmUpMs / connections.length;
      await runClosedLoop({ call, connections: each, warmUpMs: 0, durationMs }, signal);
    }
    const { perSecond } = plan.openLoop;
    await runOpenLoop({ call, perSecond, warmUpMs: 0, durationMs: plan.firstWarmUpMs / 4 }, signal);
    const names = Array.from({ length: plan.streams.count }, (_, index) => `${target.name}-before-${index}`);
    await runStreams({ call, names, staggerMs: 0 }, signal);
  }
  await untilSettled(client);
}

/** One round: every measurement of every target, in turns. */
export async function runRound(context: RoundContext, into: GatewayMeasurements, round: number): Promise<void> {
  const { plan, targets, client, begin } = context;
  const named = (what: string, { label }: Target) => `round ${round}: ${what}, ${label}`;
  for (const target of targets) {
    begin(named(`${plan.openLoop.perSecond} requests a second`, target));
    addSample(into.latency, { target: target.name, sample: await measureLatency(context, target) });
    await untilSettled(client);
  }
  for (const connections of plan.closedLoop.connections) {
    for (const target of targets) {
      begin(named(`${connections} connections`, target));
      const sample = await measureThroughput(context, { target, call: target.spread, connections });
      addSample(samplesOf(into, `${connections}`), { target: target.name, sample });
    }
  }
  const [ours] = targets;
  if (!ours) throw new Error("There is nothing to measure.");
  begin(named("one hot workspace", ours));
  const connections = Math.max(...plan.closedLoop.connections);
  const hot = await measureThroughput(context, { target: ours, call: ours.hot, connections });
  addSample(samplesOf(into, "hot"), { target: ours.name, sample: hot });
  for (const target of targets) {
    begin(named(`${plan.streams.count} streams`, target));
    addSample(into.streams, { target: target.name, sample: await measureStreams(context, { target, round }) });
  }
  begin(named("clients that leave", ours));
  into.leaving.push(await measureLeaving(context, { target: ours, round }));
}

/** What is written of all rounds. */
export async function auditBooks({ client, ownerId }: RoundContext, into: GatewayMeasurements): Promise<void> {
  await untilSettled(client);
  into.books = await readBooks(client, ownerId);
}

/**
 * Leaves nothing of the load before for latencies to pay for. A little load of the target's own follows the checkpoint,
 * after which Postgres logs whole each page that is changed for the first time: three a call at a low rate.
 */
async function prepareForLatency({ plan, client, superuser, signal }: RoundContext, target: Target): Promise<void> {
  await clearBacklog(superuser);
  const connections = Math.min(...plan.closedLoop.connections);
  await runClosedLoop({ call: target.spread, connections, warmUpMs: 0, durationMs: plan.warmUpMs }, signal);
  await untilSettled(client);
}

async function measureLatency(context: RoundContext, target: Target): Promise<LatencySample> {
  const { plan, signal } = context;
  const { warmUpMs, openLoop } = plan;
  await prepareForLatency(context, target);
  const load = await runOpenLoop({ call: target.spread, warmUpMs, ...openLoop }, signal);
  const { latenciesMs, sentLateMs, failed, firstFailure: first } = load;
  const what = `${openLoop.perSecond} requests a second`;
  if (failed > 0)
    context.complain(
      `${what}, ${target.label}: ${failed} failed, which counts as taking for ever; ${latenciesMs.length} were answered. ${first ?? ""}`,
    );
  return { quantilesMs: quantilesOf(latenciesMs, failed), sentLateMs: quantile(sentLateMs, 0.99), failed };
}

async function measureThroughput(
  context: RoundContext,
  { target, call, connections }: { target: Target; call: Target["spread"]; connections: number },
): Promise<ThroughputSample> {
  const { plan, client, postgresPid, signal } = context;
  const read = () => [readTree(target.pid)?.cpuMs, readTree(postgresPid)?.cpuMs] as const;
  const before = read();
  const { warmUpMs } = plan;
  const { durationMs, upstreamMs } = plan.closedLoop;
  const load = await runClosedLoop(
    { call, connections, warmUpMs, durationMs: target.name === "bare" ? upstreamMs : durationMs },
    signal,
  );
  // What goes on behind the answers belongs to them.
  await untilSettled(client);
  const after = read();
  const { perSecond, quantilesMs, failed, answered, answeredInAll } = load;
  if (!wentWell(context, { target, what: `${connections} connections`, failed, answered })) {
    return { perSecond: Number.NaN, quantilesMs: [], failed, cpuMsEach: undefined, postgresCpuMsEach: undefined };
  }
  const each = (index: 0 | 1) => {
    const [from, to] = [before[index], after[index]];
    return from === undefined || to === undefined ? undefined : (to - from) / answeredInAll;
  };
  return { perSecond, quantilesMs, failed, cpuMsEach: each(0), postgresCpuMsEach: each(1) };
}

async function measureStreams(
  context: RoundContext,
  { target, round }: { target: Target; round: number },
): Promise<StreamSample> {
  const { plan, upstream, signal } = context;
  await prepareForLatency(context, target);
  const { count, staggerMs, warmUp } = plan.streams;
  const named = (what: string, length: number) =>
    Array.from({ length }, (_, index) => `${target.name}-${round}-${what}${index}`);
  // What streams go through has run before, as what whole answers do has.
  await runStreams({ call: target.spread, names: named("warm-up-", warmUp), staggerMs: 0 }, signal);
  const names = named("", count);
  const { streams, delaysMs } = await runStreams({ call: target.spread, names, staggerMs }, signal);
  const { streams: sent } = await readUpstream(upstream);
  const firstMs = streams.flatMap((stream) => stream.firstMs ?? []);
  return {
    firstMs,
    firstQuantilesMs: quantilesOf(firstMs),
    delayQuantilesMs: quantilesOf(delaysMs),
    streams: count,
    whole: streams.filter(({ whole }) => whole).length,
    identical: streams.filter(({ name, sha256, whole }) => whole && sent[name]?.sha256 === sha256).length,
  };
}

async function measureLeaving(
  { plan, upstream, client, signal }: RoundContext,
  { target, round }: { target: Target; round: number },
): Promise<LeavingSample> {
  const { count, staggerMs, leaveAfter } = plan.leaving;
  const names = Array.from({ length: count }, (_, index) => `leaving-${round}-${index}`);
  const { streams } = await runStreams({ call: target.spread, names, staggerMs, leaveAfter }, signal);
  await untilSettled(client);
  const { streams: sent } = await readUpstream(upstream);
  return {
    left: streams.filter(({ whole, chunks }) => !whole && chunks >= leaveAfter).length,
    cancelled: names.filter((name) => sent[name]?.end === "cancelled").length,
    metered: await countCancelled(client, names),
  };
}

/** Whether a closed loop went well enough to count. One that did not is named, and the others go on. */
function wentWell(
  { complain }: RoundContext,
  load: { target: Target; what: string; failed: number; answered: number },
): boolean {
  const { target, what, failed, answered } = load;
  if (answered > 0 && failed / answered <= mostFailedShare) return true;
  complain(`Does not count: ${what}, ${target.label} failed ${failed} and answered ${answered}.`);
  return false;
}
