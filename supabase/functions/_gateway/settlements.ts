import type { TokenCounts } from "../_shared/money.ts";
import type { Step } from "./steps.ts";

/** How a run ended, as `ai.settle_runs` takes it. */
export type Outcome = {
  created_at: string;
  id: string;
  status: "succeeded" | "failed" | "cancelled";
  http_status: number;
  error_code?: string;
  usage_source: UsageSource;
  /** What each provider call used, by the position of its route. A guess is never charged beyond the reservation. */
  calls: { route: number; usage: TokenCounts; estimated: boolean }[];
  first_byte_ms?: number;
  latency_ms: number;
  steps: Step[];
  /** Nothing was asked of a provider, or it surely refused: the idempotency key is free again. */
  key_unused: boolean;
};

/** spec.md, Events: how a run's counts came about. */
export type UsageSource = "provider" | "provider_partial" | "estimated_partial" | "unavailable";

export type Settlements = {
  /** Takes an outcome; it is written soon, after the answer. */
  add: (outcome: Outcome) => void;
  /** Work that ends in an outcome's being taken, for which a flush waits. */
  awaitOutcome: (work: Promise<unknown>) => void;
  /** Resolves when everything taken so far is written or given up on. */
  flush: () => Promise<void>;
};

/** design.md, Gateway: batches of at most 50 ms or 100 runs. */
const batchWindowMs = 50;
export const batchSize = 100;
/** After the last the sweeper has the run. */
const retryDelaysMs = [100, 300, 1_000, 3_000, 10_000];

/**
 * Settles runs in batches, behind the answers. Safe to do late and to repeat: an open run is durable with its
 * reservation, and settling it again changes nothing.
 */
export function createSettlements(options: {
  settle: (outcomes: readonly Outcome[]) => Promise<void>;
  waitUntil: (work: Promise<unknown>) => void;
  report: (error: unknown) => void;
}): Settlements {
  let batch: Outcome[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let finishBatch: () => void = () => {};
  const writing = new Set<Promise<void>>();
  const coming = new Set<Promise<unknown>>();

  function add(outcome: Outcome): void {
    if (batch.length === 0) {
      // One promise a batch keeps the isolate alive until it is written.
      options.waitUntil(new Promise<void>((resolve) => (finishBatch = resolve)));
      timer = setTimeout(send, batchWindowMs);
    }
    batch.push(outcome);
    if (batch.length >= batchSize) send();
  }

  function send(): void {
    if (batch.length === 0) return;
    clearTimeout(timer);
    const outcomes = batch.toSorted((one, other) => (one.id < other.id ? -1 : 1));
    const finish = finishBatch;
    batch = [];
    const work = write(outcomes).finally(() => {
      writing.delete(work);
      finish();
    });
    writing.add(work);
  }

  async function write(outcomes: readonly Outcome[]): Promise<void> {
    for (const delayMs of [...retryDelaysMs, undefined]) {
      try {
        return await options.settle(outcomes);
      } catch (error) {
        if (delayMs === undefined) return options.report(error);
        await new Promise((resolve) => setTimeout(resolve, delayMs));
      }
    }
  }

  return {
    add,
    awaitOutcome(work) {
      const settled = work.finally(() => coming.delete(settled));
      coming.add(settled);
    },
    async flush() {
      await Promise.allSettled(coming);
      send();
      await Promise.all(writing);
    },
  };
}
