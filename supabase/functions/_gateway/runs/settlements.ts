import type { Attempt } from "../../_shared/attempt.ts";
import type { RunCost } from "../../_shared/call-price.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import { createBatchQueue } from "../batch-queue.ts";
import { sqlState } from "../connections.ts";
import type { UsageMark } from "../usage/usage.ts";

/** How a run ended, as passed to `ai.settle_runs`: usage and cost of all its provider calls together. */
export type Outcome = TokenCounts &
  Partial<RunCost> & {
    created_at: string;
    id: string;
    status: "succeeded" | "failed" | "cancelled";
    http_status: number;
    error_code?: string;
    usage_source: UsageSource;
    /** The position of the last call's route. */
    route?: number;
    served_tier?: string;
    /** Who bills the last call, and to which account, as named by the operator. */
    billing_name?: string;
    billing_account?: string;
    marks?: readonly UsageMark[];
    /** Whether some of the usage is an estimate. */
    estimated?: boolean;
    first_byte_ms?: number;
    latency_ms: number;
    steps: Step[];
    attempts?: Attempt[];
    /**
     * Whether no provider was called, or the provider certainly refused: the idempotency key can then be used again.
     */
    key_unused: boolean;
  };

/** Where a run's counts come from. */
export type UsageSource = "provider" | "provider_partial" | "estimated_partial" | "unavailable";

export type Settlements = {
  /**
   * Takes an outcome. It is written soon after the answer, in a batch; with `promptly`, it does not wait for other
   * outcomes.
   */
  add: (outcome: Outcome, options?: { promptly: boolean }) => void;
  /** Registers work that will add an outcome, so that a flush waits for it. */
  awaitOutcome: (work: Promise<unknown>) => void;
  /** Resolves when every outcome added so far is written. */
  flush: () => Promise<void>;
};

/** A batch is sent after 50 ms, or earlier if it has 100 runs. */
const batchWindowMs = 50;
export const batchSize = 100;
/** The last delay repeats. The sweeper closes a run that stays open, and its outcome corrects the cost later. */
const retryDelaysMs = [100, 300, 1_000, 3_000, 10_000];

/** An SQLSTATE class (PostgreSQL, Appendix A). */
const dataException = "22";

/**
 * Settles runs in batches, after their answers. An outcome is retried until it is written: an open run is stored with
 * its reservation, and settling is idempotent.
 */
export function createSettlements(options: {
  settle: (outcomes: readonly Outcome[]) => Promise<void>;
  waitUntil: (work: Promise<unknown>) => void;
  report: (error: unknown) => void;
}): Settlements {
  const queue = createBatchQueue<Outcome, void>({
    async askMany(outcomes) {
      await options.settle(outcomes.toSorted((one, other) => (one.id < other.id ? -1 : 1)));
      return [];
    },
    askOne: (outcome) => options.settle([outcome]),
    maxBatch: batchSize,
    gather: (start) => void setTimeout(start, batchWindowMs),
  });
  const writing = new Set<Promise<void>>();
  const coming = new Set<Promise<unknown>>();

  async function write(outcome: Outcome): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        return await queue.ask(outcome);
      } catch (error) {
        // Postgres can't read the outcome, so a retry doesn't help.
        const isHopeless = sqlState(error)?.startsWith(dataException);
        if (isHopeless || failures === retryDelaysMs.length) options.report(error);
        if (isHopeless) return;
        await new Promise((resolve) => setTimeout(resolve, retryDelaysMs[failures - 1] ?? retryDelaysMs.at(-1)));
      }
    }
  }

  return {
    add(outcome, { promptly } = { promptly: false }) {
      const written = write(outcome).finally(() => writing.delete(written));
      if (promptly) queue.flush();
      writing.add(written);
      options.waitUntil(written);
    },
    awaitOutcome(work) {
      const settled = work.finally(() => coming.delete(settled));
      coming.add(settled);
    },
    async flush() {
      await Promise.allSettled(coming);
      queue.flush();
      while (writing.size > 0) await Promise.all(writing);
    },
  };
}

/** One entry of `platform.steps`. */
export type Step = {
  step: number;
  type: "model" | "tool" | "retry";
  name: string;
  status: "succeeded" | "failed" | "aborted";
  latency_ms: number;
};
