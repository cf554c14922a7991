import { createBag, type InBag } from "../_shared/bag.ts";

/** A limit that was set for something to happen. */
export type TimeLimit = {
  /** Sets it anew, in milliseconds from now; never, if infinite. */
  restart: (limitMs: number) => void;
  end: () => void;
};

/** How late a limit may fall, in milliseconds. */
const precisionMs = 25;

type Limit = { fallsAt: number; fall: () => void; watched?: InBag<Limit> };
const watched = createBag<Limit>();
let looking = false;

/**
 * Calls `fall` once, should the limit be over before it is ended. Never early, and a little late: all limits of an isolate
 * share one timer, since a call has several that hardly ever fall, and a timer for each takes as long as reading its body.
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
      // One that fell before it may have ended it.
      if (limit.fallsAt > now || !limit.watched) continue;
      forget(limit);
      limit.fall();
    }
  } finally {
    // Whatever one of them throws, the others fall in their time.
    looking = watched.size > 0;
    if (looking) setTimeout(look, precisionMs);
  }
}
