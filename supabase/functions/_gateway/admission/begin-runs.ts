import { type GatewayDatabase, isUnanswered, type KeptAnswer, type Run, type RunRequest } from "../database.ts";

/** Before each look for runs that may have begun unheard. After the last the sweeper has them. */
const lookDelaysMs = [250, 500, 1_000, 3_000, 10_000];
/** Also of one that is not there: what was sent behind a statement that hung may begin a little after it. */
const leastLooks = 3;
/** In one look. */
const maxLooked = 100;

/**
 * Begins runs. One whose answer never came is looked for behind the caller, who was turned away, and ended at nothing:
 * neither money nor an idempotency key stays held for a call that reached no provider.
 */
export function createBegin(options: {
  database: Pick<GatewayDatabase, "beginRun" | "giveBackRuns">;
  waitUntil: (work: Promise<unknown>) => void;
}): (request: Omit<RunRequest, "run_tail">) => Promise<Run | KeptAnswer> {
  /** Tails of run ids, each with the looks that it has had. */
  const unheard = new Map<string, number>();
  let looking = false;

  /** Looks for all of them, one statement at a time. */
  async function look(): Promise<void> {
    for (let [next] = unheard; next; [next] = unheard) {
      await new Promise((resolve) => setTimeout(resolve, lookDelaysMs[next[1]]));
      const tails = [...unheard.keys()].slice(0, maxLooked);
      const undecided = new Set(await options.database.giveBackRuns(tails).catch(() => tails));
      for (const tail of tails) {
        const looks = (unheard.get(tail) ?? 0) + 1;
        // Those that wait longer go to the end, so that none keeps another from being looked for.
        unheard.delete(tail);
        const isOver = looks >= (undecided.has(tail) ? lookDelaysMs.length : leastLooks);
        if (!isOver) unheard.set(tail, looks);
      }
    }
    looking = false;
  }

  return async (request) => {
    const tail = crypto.randomUUID().slice(-17);
    try {
      return await options.database.beginRun({ ...request, run_tail: tail });
    } catch (error) {
      if (isUnanswered(error)) {
        unheard.set(tail, 0);
        if (!looking) options.waitUntil(look());
        looking = true;
      }
      throw error;
    }
  };
}
