import { createBag, type InBag } from "../_shared/bag.ts";

/** A time limit that can be restarted or ended. */
export type TimeLimit = {
  /** Restarts the limit, which then expires in `limitMs` milliseconds, or never if that is infinite. */
  restart: (limitMs: number) => void;
  end: () => void;
};

/** How late a limit may expire, in milliseconds. */
const precisionMs = 25;

type Limit = { fallsAt: number; fall: () => void; watched?: InBag<Limit> };
const watched = createBag<Limit>();
let looking = false;

/**
 * Starts a time limit. If the limit expires, calls `fall` a single time, never early but up to 25 ms late. All limits
 * of an isolate share one timer. A call has several limits that rarely expire, and a timer for each limit would take as
 * long as reading the call's body.
 */
export function startTimeLimit(limitMs: number, fall: () => void): TimeLimit {
  const limit: Limit = { fallsAt: Number.POSITIVE_INFINITY, fall };
  function restart(ms: number): void {
    limit.fallsAt = performance.now() + ms;
    limit.watched ??= watched.add(limit);
    if (!looking) setTimeout(look, precisionMs);
    looking = true;
  }
  restart(limitMs);
  return { restart, end: () => forget(limit) };
}

function forget(limit: Limit): void {
  if (limit.watched) watched.remove(limit.watched);
  limit.watched = undefined;
}

function look(): void {
  const now = performance.now();
  try {
    for (const limit of watched.items()) {
      // An earlier callback in this loop may have ended the limit.
      if (limit.fallsAt > now || !limit.watched) continue;
      forget(limit);
      limit.fall();
    }
  } finally {
    // Sets the next timer even if a callback throws, so that the other limits still expire on time.
    looking = watched.size > 0;
    if (looking) setTimeout(look, precisionMs);
  }
}
