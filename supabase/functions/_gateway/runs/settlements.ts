import type { TokenCounts } from "../../_shared/money.ts";
import type { Step } from "./steps.ts";

/** How a run ended. */
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

/** How a run's counts came about. */
export type UsageSource = "provider" | "provider_partial" | "estimated_partial" | "unavailable";

export type Settlements = {
  /** Takes an outcome; it is written soon, after the answer. */
  add: (outcome: Outcome) => void;
  /** Work that ends in an outcome's being taken, for which a flush waits. */
  awaitOutcome: (work: Promise<unknown>) => void;
  /** Resolves when everything taken so far is written or given up on. */
  flush: () => Promise<void>;
};

/** Batches are of at most 50 ms or 100 runs. */
const batchWindowMs = 50;
export const batchSize = 100;
/** Statements under way at once: more would only take connections and processors from those who wait for an admission. */
export const maxUnderWay = 2;
/** After the last the sweeper has the run. */
const retryDelaysMs = [100, 300, 1_000, 3_000, 10_000];

/** An outcome as `ai.settle_runs` takes it. */
export type ToldOutcome = Omit<Outcome, "calls" | "key_unused"> &
  Partial<
    Pick<Outcome, "calls" | "key_unused"> & Outcome["calls"][number]["usage"] & { route: number; estimated: true }
  >;

/** Says what can be said shortly: reading it costs the database as much as booking it. */
function tellOutcome({ calls, key_unused, ...outcome }: Outcome): ToldOutcome {
  const said: ToldOutcome = key_unused ? { ...outcome, key_unused } : outcome;
  const [call, ...others] = calls;
  if (!call) return said;
  if (others.length > 0) return { ...said, calls };
  const counts = Object.fromEntries(Object.entries(call.usage).filter(([, tokens]) => tokens !== 0));
  return { ...said, route: call.route, ...counts, ...(call.estimated ? { estimated: true } : {}) };
}

/** Outcomes that are told together, and how often in vain. */
type Batch = { outcomes: Outcome[]; failures: number; written: Promise<void>; finish: () => void };

/**
 * Settles runs in batches, behind the answers; those whose time comes while others are being written wait and grow. Safe
 * to do late and to repeat: an open run is durable with its reservation, and settling it again changes nothing.
 */
export function createSettlements(options: {
  settle: (outcomes: readonly ToldOutcome[]) => Promise<void>;
  waitUntil: (work: Promise<unknown>) => void;
  report: (error: unknown) => void;
}): Settlements {
  let gathering: Batch | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const due: Batch[] = [];
  let underWay = 0;
  const writing = new Set<Promise<void>>();
  const coming = new Set<Promise<unknown>>();

  function add(outcome: Outcome): void {
    const last = due.at(-1);
    // What was tried stays by itself: whoever came later should have all of their tries.
    if (last && last.failures === 0 && last.outcomes.length < batchSize) {
      last.outcomes.push(outcome);
      return;
    }
    gathering ??= startBatch();
    gathering.outcomes.push(outcome);
    if (gathering.outcomes.length >= batchSize) send();
  }

  function startBatch(): Batch {
    let finish = () => {};
    const written = new Promise<void>((resolve) => (finish = resolve));
    // One promise a batch keeps the isolate alive until it is written.
    options.waitUntil(written);
    timer = setTimeout(send, batchWindowMs);
    return { outcomes: [], failures: 0, written, finish };
  }

  function send(): void {
    if (!gathering) return;
    clearTimeout(timer);
    writing.add(gathering.written);
    due.push(gathering);
    gathering = undefined;
    next();
  }

  function next(): void {
    while (underWay < maxUnderWay) {
      const batch = due.shift();
      if (!batch) return;
      underWay += 1;
      void write(batch).finally(() => {
        underWay -= 1;
        next();
      });
    }
  }

  /** Whoever waits to try again is not under way, and holds up nobody. */
  async function write(batch: Batch): Promise<void> {
    const outcomes = batch.outcomes.toSorted((one, other) => (one.id < other.id ? -1 : 1));
    try {
      await options.settle(outcomes.map(tellOutcome));
    } catch (error) {
      const delayMs = retryDelaysMs[batch.failures];
      batch.failures += 1;
      if (delayMs !== undefined) {
        setTimeout(tryAgain, delayMs, batch);
        return;
      }
      options.report(error);
    }
    writing.delete(batch.written);
    batch.finish();
  }

  function tryAgain(batch: Batch): void {
    due.unshift(batch);
    next();
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
      while (writing.size > 0) await Promise.all(writing);
    },
  };
}
