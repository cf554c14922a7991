import { createBag, type InBag } from "../_shared/bag.ts";

/** A time limit that can be restarted or ended. */
export type TimeLimit = {
  /** Restarts the limit, in milliseconds from now; it never expires if infinite. */
  restart: (limitMs: number) => void;
  end: () => void;
};

/** How late a limit may expire, in milliseconds. */
const precisionMs = 25;

type Limit = { fallsAt: number; fall: () => void; watched?: InBag<Limit> };
const watched = createBag<Limit>();
let looking = false;

/**
 * Calls `fall` once if the limit expires before it is ended: never early, but a little late. All limits of an isolate
 * share one timer, because a call has several that rarely expire, and a timer for each takes as long as reading its
 * body.
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
      // A limit that expired earlier may have ended this one.
      if (limit.fallsAt > now || !limit.watched) continue;
      forget(limit);
      limit.fall();
    }
  } finally {
    // If the callback of one limit throws, the other limits still expire on time.
    looking = watched.size > 0;
    if (looking) setTimeout(look, precisionMs);
  }
}
