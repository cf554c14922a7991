import type { Attempt } from "../../_shared/attempt.ts";
import type { RunCost } from "../../_shared/call-price.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import { createBatchQueue } from "../database/batch-queue.ts";
import { databaseWaitMs, sqlState } from "../database/connections.ts";
import type { UsageMark } from "../usage/usage.ts";

/** The outcome of a run, as passed to `ai.settle_runs`, with the usage and cost of all its provider calls. */
export type Outcome = TokenCounts &
  Partial<RunCost> & {
    created_at: string;
    id: string;
    status: "succeeded" | "failed" | "cancelled";
    http_status: number;
    error_code?: string;
    usage_source: UsageSource;
    /** The position of the route that served the last call. */
    route?: number;
    served_tier?: string;
    /**
     * The billing name of the last call's provider, and the account that the provider bills. The operator sets both.
     */
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
     * Whether no provider was called or the provider certainly refused, so that the idempotency key can be used again.
     */
    key_unused: boolean;
  };

/** How a run's token counts were determined. */
export type UsageSource = "provider" | "provider_partial" | "estimated_partial" | "unavailable";

export type Settlements = ReturnType<typeof createSettlements>;

/** An outcome, and the workspace whose rows it changes. */
type QueuedOutcome = { outcome: Outcome; workspaceId: string };

/** A batch is sent after 50 ms, or earlier when it has 100 outcomes. */
const batchWindowMs = 50;
export const batchSize = 100;
const maxSettleBatches = 2;
/**
 * Delays between retries. The last one repeats. If the sweeper closes the run in the meantime, a later retry corrects
 * the run's cost.
 */
const retryDelaysMs = [100, 300, 1_000, 3_000, 10_000];

/** The SQLSTATE class of data exceptions (PostgreSQL, Appendix A). */
const dataExceptionClass = "22";

/**
 * Settles runs in batches after their answers. Retries an outcome until it is written, which is safe because settling
 * is idempotent and the reservation remains until then.
 */
export function createSettlements(options: {
  settle: (outcomes: readonly Outcome[]) => Promise<void>;
  waitUntil: (work: Promise<unknown>) => void;
  report: (error: unknown) => void;
}) {
  const queue = createBatchQueue<QueuedOutcome, void>({
    async send(queued) {
      const outcomes = queued.map(({ outcome }) => outcome);
      await options.settle(outcomes.toSorted((one, other) => (one.id < other.id ? -1 : 1)));
      return [];
    },
    laneOf: ({ workspaceId }) => workspaceId,
    maxBatch: batchSize,
    maxBatches: maxSettleBatches,
    waitMs: databaseWaitMs,
    gather: (start) => void setTimeout(start, batchWindowMs),
  });
  const writes = new Set<Promise<void>>();
  const pendingOutcomes = new Set<Promise<unknown>>();

  async function write(queued: QueuedOutcome): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        return await queue.ask(queued);
      } catch (error) {
        // Postgres can't parse the outcome, so a retry would not help.
        const isHopeless = sqlState(error)?.startsWith(dataExceptionClass);
        if (isHopeless || failures === retryDelaysMs.length) options.report(error);
        if (isHopeless) return;
        await new Promise((resolve) => setTimeout(resolve, retryDelaysMs[failures - 1] ?? retryDelaysMs.at(-1)));
      }
    }
  }

  return {
    /**
     * Adds an outcome, which is soon written in a batch. With `promptly`, it is written without waiting for other
     * outcomes.
     */
    add(outcome: Outcome, { workspaceId, promptly }: { workspaceId: string; promptly: boolean }): void {
      const work = write({ outcome, workspaceId }).finally(() => writes.delete(work));
      if (promptly) queue.flush();
      writes.add(work);
      options.waitUntil(work);
    },
    /** Registers work that will add an outcome, so that a flush waits for it. */
    awaitOutcome(work: Promise<unknown>): void {
      const pending = work.finally(() => pendingOutcomes.delete(pending));
      pendingOutcomes.add(pending);
    },
    /** Resolves when all outcomes added so far are written. */
    async flush(): Promise<void> {
      await Promise.allSettled(pendingOutcomes);
      queue.flush();
      while (writes.size > 0) await Promise.all(writes);
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
