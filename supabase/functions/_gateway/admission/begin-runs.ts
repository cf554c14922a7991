import { databaseWaitMs, getStatementEnd, isUnanswered } from "../database/connections.ts";
import type { GatewayDatabase, Run, RunRequest, StoredAnswer } from "../database/database.ts";

/** Delay before each lookup of a run whose start got no answer. The last one repeats while it may still begin. */
const lookupDelaysMs = [250, 500, 1_000, 3_000, 10_000];
/** Minimum number of lookups. If a run is not found, a stalled server may still begin the run later. */
const minLookups = 4;
/**
 * Delay before the next lookup if the database did not answer. An unanswered lookup does not count toward `minLookups`.
 */
const retryDelayMs = 1_000;
/** How long to keep looking up a run. A batch may run on for as long as its youngest call waits. */
const maxLookupMs = databaseWaitMs + 40_000;
/** Maximum number of runs that one statement looks up. */
const maxLookupRuns = 100;

/**
 * A run whose start the database did not confirm. The gateway sent the request at `requestedAt` and gave up at
 * `failedAt`. The database may have begun the run, or may still begin it.
 */
type UnconfirmedRun = { tail: string; requestedAt: number; failedAt: number; lookups: number; dueAt: number };

/**
 * Begins runs. If the database never answers, the caller is refused. The run is then looked up in the background and
 * ended at no cost, since a call that reached no provider must hold neither money nor an idempotency key.
 */
export function createRunStarter(options: {
  database: Pick<GatewayDatabase, "beginRun" | "releaseOrphanedRuns">;
  waitUntil: (work: Promise<unknown>) => void;
}): (request: Omit<RunRequest, "run_id_suffix">) => Promise<Run | StoredAnswer> {
  let unconfirmed: UnconfirmedRun[] = [];
  let isLookingUp = false;

  /** Looks up each run when it is due. Runs one statement at a time. */
  async function lookUpWhenDue(): Promise<void> {
    while (unconfirmed.length > 0) {
      // Sleeps only for the shortest delay, because a run added meanwhile may be due earlier.
      await new Promise((resolve) => setTimeout(resolve, lookupDelaysMs[0]));
      const due = unconfirmed.filter(({ dueAt }) => dueAt <= performance.now());
      for (let from = 0; from < due.length; from += maxLookupRuns) {
        const runs = due.slice(from, from + maxLookupRuns);
        const tails = runs.map(({ tail }) => tail);
        const oldest = Math.min(...runs.map(({ requestedAt }) => requestedAt));
        const pending = await options.database
          .releaseOrphanedRuns(tails, performance.now() - oldest)
          .catch(() => undefined);
        if (!pending) {
          for (const run of due.slice(from)) run.dueAt = performance.now() + retryDelayMs;
          break;
        }
        for (const run of runs) {
          run.lookups += 1;
          const isOver = run.lookups >= minLookups && !pending.includes(run.tail);
          const delayMs = lookupDelaysMs[run.lookups] ?? lookupDelaysMs.at(-1) ?? 0;
          run.dueAt = isOver ? Number.POSITIVE_INFINITY : performance.now() + delayMs;
        }
      }
      unconfirmed = unconfirmed.filter(({ failedAt, dueAt }) => dueAt < failedAt + maxLookupMs);
    }
    isLookingUp = false;
  }

  function lookUp(tail: string, requestedAt: number): void {
    const failedAt = performance.now();
    unconfirmed.push({ tail, requestedAt, failedAt, lookups: 0, dueAt: failedAt + (lookupDelaysMs[0] ?? 0) });
    if (!isLookingUp) options.waitUntil(lookUpWhenDue());
    isLookingUp = true;
  }

  return async (request) => {
    const tail = crypto.randomUUID().slice(-17);
    const requestedAt = performance.now();
    try {
      return await options.database.beginRun({ ...request, run_id_suffix: tail });
    } catch (error) {
      if (isUnanswered(error)) {
        lookUp(tail, requestedAt);
        // The statement may have waited for a connection, and begin the run after the last lookup.
        const statementEnd = getStatementEnd(error);
        if (statementEnd) options.waitUntil(statementEnd.then(() => lookUp(tail, requestedAt)));
      }
      throw error;
    }
  };
}
