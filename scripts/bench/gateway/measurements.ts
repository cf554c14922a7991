import type { Books } from "./books.ts";
import type { TargetName } from "./targets.ts";

/** One target at a fixed rate. */
export type LatencySample = { quantilesMs: number[]; sentLateMs: number; failed: number };

/** One target with so many connections; CPU time a request, of the process under test and of Postgres. */
export type ThroughputSample = {
  perSecond: number;
  quantilesMs: number[];
  failed: number;
  cpuMsEach: number | undefined;
  postgresCpuMsEach: number | undefined;
};

/** One target with streams side by side. */
export type StreamSample = {
  firstMs: number[];
  delayQuantilesMs: number[];
  firstQuantilesMs: number[];
  streams: number;
  whole: number;
  identical: number;
};

export type LeavingSample = { left: number; cancelled: number; metered: number };

/** A load of closed loops: so many connections over all workspaces, or on one. */
export type LoadName = `${number}` | "hot";

type ByTarget<T> = Partial<Record<TargetName, T[]>>;

/** What the rounds have brought, one sample a round. */
export type GatewayMeasurements = {
  latency: ByTarget<LatencySample>;
  throughput: Partial<Record<LoadName, ByTarget<ThroughputSample>>>;
  streams: ByTarget<StreamSample>;
  leaving: LeavingSample[];
  /** What is written of all rounds. */
  books?: Books;
  /** The functions' memory through all rounds. */
  rss: { atSeconds: number; bytes: number }[];
  closedLoopBy: "wrk" | "autocannon";
};

/** Adds a sample of a target. */
export function addSample<T>(samples: ByTarget<T>, { target, sample }: { target: TargetName; sample: T }): void {
  const known = samples[target] ?? [];
  known.push(sample);
  samples[target] = known;
}

/** The samples of a load, by target. */
export function samplesOf({ throughput }: GatewayMeasurements, load: LoadName): ByTarget<ThroughputSample> {
  const known = throughput[load] ?? {};
  throughput[load] = known;
  return known;
}
