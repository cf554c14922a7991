import type { Books } from "./books.ts";
import type { TargetName } from "./targets.ts";

/** A sample of one target under load at a fixed rate. */
export type LatencySample = { quantilesMs: number[]; sentLateMs: number; failed: number };

/**
 * A sample of one target under load from a fixed number of connections. The CPU times of the gateway and of Postgres
 * are per request.
 */
export type ThroughputSample = {
  perSecond: number;
  quantilesMs: number[];
  failed: number;
  gatewayCpuMs: number | undefined;
  postgresCpuMs: number | undefined;
};

/** A sample of one target under load from concurrent streams. */
export type StreamSample = { firstMs: number[]; streams: number; identical: number };

export type ByTarget<T> = Partial<Record<TargetName, T[]>>;

/** All samples, one per round. */
export type GatewayMeasurements = {
  latency: ByTarget<LatencySample>;
  /** The samples by number of connections. */
  throughput: Record<number, ByTarget<ThroughputSample>>;
  streams: ByTarget<StreamSample>;
  /** The database's records of the runs, checked after the last round. */
  books?: Books;
};

export function addSample<T>(samples: ByTarget<T>, { target, sample }: { target: TargetName; sample: T }): void {
  samples[target] = [...(samples[target] ?? []), sample];
}
