import { databaseWaitMs, isUnanswered, statementEndOf } from "../connections.ts";
import type { GatewayDatabase, KeptAnswer, Run, RunRequest } from "../database.ts";

/** Delay before each lookup of a run whose start got no answer. The last one repeats while it may still begin. */
const lookDelaysMs = [250, 500, 1_000, 3_000, 10_000];
/** Minimum number of lookups. If a run is not found, a stalled server may still begin the run later. */
const leastLooks = 4;
/**
 * Delay before the next lookup if the database did not answer. An unanswered lookup does not count toward `leastLooks`.
 */
const againMs = 1_000;
/** How long to keep looking up a run. A batch may run on for as long as its youngest call waits. */
const longestMs = databaseWaitMs + 40_000;
/** Maximum number of runs that one statement looks up. */
const maxLooked = 100;

/**
 * A run whose start the database did not confirm. The gateway asked at `askedAt` and gave up at `givenUpAt`. The
 * database may have begun the run, or may still begin it.
 */
type Unheard = { tail: string; askedAt: number; givenUpAt: number; looks: number; dueAt: number };

/**
 * Begins runs. If the database never answers, the caller is refused. The run is then looked up in the background and
 * ended at no cost, since a call that reached no provider must hold neither money nor an idempotency key.
 */
export function createBegin(options: {
  database: Pick<GatewayDatabase, "beginRun" | "releaseOrphanedRuns">;
  waitUntil: (work: Promise<unknown>) => void;
}): (request: Omit<RunRequest, "run_id_suffix">) => Promise<Run | KeptAnswer> {
  let unheard: Unheard[] = [];
  let isLooking = false;

  /** Looks up each run when it is due. Runs one statement at a time. */
  async function look(): Promise<void> {
    while (unheard.length > 0) {
      // Sleeps only for the shortest delay, because a run added meanwhile may be due earlier.
      await new Promise((resolve) => setTimeout(resolve, lookDelaysMs[0]));
      const due = unheard.filter(({ dueAt }) => dueAt <= performance.now());
      for (let from = 0; from < due.length; from += maxLooked) {
        const some = due.slice(from, from + maxLooked);
        const tails = some.map(({ tail }) => tail);
        const firstAskedAt = Math.min(...some.map(({ askedAt }) => askedAt));
        const undecided = await options.database
          .releaseOrphanedRuns(tails, performance.now() - firstAskedAt)
          .catch(() => undefined);
        if (!undecided) {
          for (const one of due.slice(from)) one.dueAt = performance.now() + againMs;
          break;
        }
        const known = new Set(undecided);
        for (const one of some) {
          one.looks += 1;
          const isOver = one.looks >= leastLooks && !known.has(one.tail);
          const delayMs = lookDelaysMs[one.looks] ?? lookDelaysMs.at(-1) ?? 0;
          one.dueAt = isOver ? Number.POSITIVE_INFINITY : performance.now() + delayMs;
        }
      }
      unheard = unheard.filter(({ givenUpAt, dueAt }) => dueAt < givenUpAt + longestMs);
    }
    isLooking = false;
  }

  function lookUp(tail: string, askedAt: number): void {
    const givenUpAt = performance.now();
    unheard.push({ tail, askedAt, givenUpAt, looks: 0, dueAt: givenUpAt + (lookDelaysMs[0] ?? 0) });
    if (!isLooking) options.waitUntil(look());
    isLooking = true;
  }

  return async (request) => {
    const tail = crypto.randomUUID().slice(-17);
    const askedAt = performance.now();
    try {
      return await options.database.beginRun({ ...request, run_id_suffix: tail });
    } catch (error) {
      if (isUnanswered(error)) {
        lookUp(tail, askedAt);
        // The statement may have waited for a connection, and begin the run after the last lookup.
        const statementEnd = statementEndOf(error);
        if (statementEnd) options.waitUntil(statementEnd.then(() => lookUp(tail, askedAt)));
      }
      throw error;
    }
  };
}
