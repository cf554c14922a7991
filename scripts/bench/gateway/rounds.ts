import type pg from "pg";
import type { Plan } from "../options.ts";
import type { Progress } from "../progress.ts";
import { quantile, quantilesOf } from "../statistics.ts";
import { readUpstream } from "../upstream/upstream.ts";
import { untilSettled } from "./books.ts";
import { clearBacklog } from "./database-state.ts";
import { runClosedLoop, runOpenLoop, runStreams } from "./load.ts";
import {
  addSample,
  type GatewayMeasurements,
  type LatencySample,
  type StreamSample,
  type ThroughputSample,
} from "./measurements.ts";
import { type Target, targetLabels } from "./targets.ts";
import { sampleThroughput } from "./throughput.ts";

export type RoundContext = {
  plan: Plan;
  targets: readonly Target[];
  upstream: { url: string };
  client: pg.Client;
  superuser: pg.Client;
  postgresPid: number;
  signal: AbortSignal;
  begin: Progress["begin"];
  complain: (text: string) => void;
};

/** Returns the targets that can keep up with a fixed rate. Two LiteLLM workers do not reach 200 requests per second. */
const paced = (targets: readonly Target[]) => targets.filter(({ name }) => name !== "litellm");

/** Returns the total number of steps in all rounds, for a number of targets with or without LiteLLM. */
export function countSteps(plan: Plan, { targets, litellm }: { targets: number; litellm: boolean }): number {
  const steady = targets - (litellm ? 1 : 0);
  return targets - 1 + plan.rounds * (2 * steady + plan.closedLoop.connections.length * targets);
}

/** Puts every kind of load on each gateway, so that its code is compiled before the measurement. */
export async function warmUpTargets({ plan, targets, client, signal, begin }: RoundContext): Promise<void> {
  const { connections } = plan.closedLoop;
  for (const target of targets) {
    if (target.name === "bare") continue;
    const { name, call } = target;
    begin(`before the rounds, ${targetLabels[name]}`);
    const durationMs = plan.firstWarmUpMs / connections.length;
    for (const each of connections) {
      await runClosedLoop({ call, connections: each, warmUpMs: 0, durationMs }, signal);
    }
    if (paced([target]).length === 0) continue;
    const { perSecond } = plan.openLoop;
    await runOpenLoop({ call, perSecond, warmUpMs: 0, durationMs: plan.firstWarmUpMs / 8 }, signal);
    const names = Array.from({ length: plan.streams.count }, (_, index) => `${name}-before-${index}`);
    await runStreams({ call, names, staggerMs: 0 }, signal);
  }
  await untilSettled(client);
}

/** Runs one round, which takes every measurement of every target in turn. */
export async function runRound(context: RoundContext, into: GatewayMeasurements, round: number): Promise<void> {
  const { plan, targets, client, begin } = context;
  const announce = (what: string, { name }: Target) => begin(`round ${round}: ${what}, ${targetLabels[name]}`);
  for (const target of paced(targets)) {
    announce(`${plan.openLoop.perSecond} requests a second`, target);
    addSample(into.latency, { target: target.name, sample: await measureLatency(context, target) });
    await untilSettled(client);
  }
  for (const connections of plan.closedLoop.connections) {
    const samples = into.throughput[connections] ?? {};
    into.throughput[connections] = samples;
    for (const target of targets) {
      announce(`${connections} connections`, target);
      addSample(samples, { target: target.name, sample: await measureThroughput(context, { target, connections }) });
    }
  }
  for (const target of paced(targets)) {
    announce(`${plan.streams.count} streams`, target);
    addSample(into.streams, { target: target.name, sample: await measureStreams(context, { target, round }) });
  }
}

/**
 * Finishes the database work left by the previous load, then runs a short load on the target. The short load absorbs
 * the full-page writes that follow a checkpoint, so that they don't slow the measured calls.
 */
async function prepareForLatency({ plan, client, superuser, signal }: RoundContext, { call }: Target): Promise<void> {
  await clearBacklog(superuser);
  const [connections] = plan.closedLoop.connections;
  await runClosedLoop({ call, connections, warmUpMs: 0, durationMs: plan.warmUpMs }, signal);
  await untilSettled(client);
}

async function measureLatency(context: RoundContext, target: Target): Promise<LatencySample> {
  const { plan, signal, complain } = context;
  const { warmUpMs, openLoop } = plan;
  await prepareForLatency(context, target);
  const load = await runOpenLoop({ call: target.call, warmUpMs, ...openLoop }, signal);
  const { latenciesMs, sentLateMs, failed, firstFailure: first } = load;
  if (failed > 0) {
    const label = targetLabels[target.name];
    complain(
      `${label} failed ${failed} of ${failed + latenciesMs.length} at a fixed rate, counted as ∞. ${first ?? ""}`,
    );
  }
  return { quantilesMs: quantilesOf(latenciesMs, failed), sentLateMs: quantile(sentLateMs, 0.99), failed };
}

function measureThroughput(
  context: RoundContext,
  { target: { name, pid, call }, connections }: { target: Target; connections: number },
): Promise<ThroughputSample> {
  const { client, postgresPid, plan } = context;
  const { warmUpMs, closedLoop } = plan;
  const durationMs = name === "bare" ? closedLoop.upstreamMs : closedLoop.durationMs;
  const database = name === "gatehouse" || name === "floor" ? { client, postgresPid } : undefined;
  const server = { label: targetLabels[name], pid, call, database };
  return sampleThroughput(server, { connections, warmUpMs, durationMs }, context);
}

async function measureStreams(
  context: RoundContext,
  { target, round }: { target: Target; round: number },
): Promise<StreamSample> {
  const { plan, upstream, signal } = context;
  const { name, call } = target;
  await prepareForLatency(context, target);
  const { count, staggerMs, warmUp } = plan.streams;
  const named = (what: string, length: number) =>
    Array.from({ length }, (_, index) => `${name}-${round}-${what}${index}`);
  await runStreams({ call, names: named("warm-up-", warmUp), staggerMs: 0 }, signal);
  const { streams } = await runStreams({ call, names: named("", count), staggerMs }, signal);
  const { streams: sent } = await readUpstream(upstream);
  return {
    firstMs: streams.flatMap((stream) => stream.firstMs ?? []),
    streams: count,
    identical: streams.filter(({ name, sha256, whole }) => whole && sent[name]?.sha256 === sha256).length,
  };
}
