import { isUnanswered } from "../connections.ts";
import type { GatewayDatabase, KeptAnswer, Run, RunRequest } from "../database.ts";

/** Before each look for a run that may have begun unheard. After the last the sweeper has it. */
const lookDelaysMs = [250, 500, 1_000, 3_000, 10_000];
/** Also for one that is not there: a server that stands still may begin it once it goes on, or once it has one before it. */
const leastLooks = 4;
/** Until the next look, after one that the database did not answer, which is none. */
const againMs = 1_000;
/** While the database does not answer. */
const longestMs = 60_000;
/** In one statement. */
const maxLooked = 100;

/** A run that may have begun since it was asked for, until it was given up or later. */
type Unheard = { tail: string; askedAt: number; givenUpAt: number; looks: number; dueAt: number };

/**
 * Begins runs. One whose answer never came is looked for behind the caller, who was turned away, and ended at nothing:
 * neither money nor an idempotency key stays held for a call that reached no provider.
 */
export function createBegin(options: {
  database: Pick<GatewayDatabase, "beginRun" | "releaseOrphanedRuns">;
  waitUntil: (work: Promise<unknown>) => void;
}): (request: Omit<RunRequest, "run_id_suffix">) => Promise<Run | KeptAnswer> {
  let unheard: Unheard[] = [];
  let isLooking = false;

  /** Looks for all of them, each in its time, one statement at a time. */
  async function look(): Promise<void> {
    while (unheard.length > 0) {
      // No longer than that: whoever comes meanwhile may be due before these.
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
          const isOver = one.looks >= (known.has(one.tail) ? lookDelaysMs.length : leastLooks);
          one.dueAt = isOver ? Number.POSITIVE_INFINITY : performance.now() + (lookDelaysMs[one.looks] ?? 0);
        }
      }
      unheard = unheard.filter(({ givenUpAt, dueAt }) => dueAt < givenUpAt + longestMs);
    }
    isLooking = false;
  }

  return async (request) => {
    const tail = crypto.randomUUID().slice(-17);
    const askedAt = performance.now();
    try {
      return await options.database.beginRun({ ...request, run_id_suffix: tail });
    } catch (error) {
      if (isUnanswered(error)) {
        const givenUpAt = performance.now();
        unheard.push({ tail, askedAt, givenUpAt, looks: 0, dueAt: givenUpAt + (lookDelaysMs[0] ?? 0) });
        if (!isLooking) options.waitUntil(look());
        isLooking = true;
      }
      throw error;
    }
  };
}
