import { type BagEntry, createBag } from "../../_shared/bag.ts";

/** A time limit that can be restarted or ended. */
export type TimeLimit = {
  /** Restarts the limit, which then expires in `limitMs` milliseconds, or never if that is infinite. */
  restart: (limitMs: number) => void;
  end: () => void;
};

/** How late a limit may expire, in milliseconds. */
const precisionMs = 25;

type Limit = { expiresAt: number; onExpiry: () => void; entry?: BagEntry<Limit> };
const limits = createBag<Limit>();
let isTimerSet = false;

/**
 * Starts a time limit. If the limit expires, calls `onExpiry` a single time, never early but up to 25 ms late. All limits
 * of an isolate share one timer. A call has several limits that rarely expire, and a timer for each limit would take as
 * long as reading the call's body.
 */
export function startTimeLimit(limitMs: number, onExpiry: () => void): TimeLimit {
  const limit: Limit = { expiresAt: Number.POSITIVE_INFINITY, onExpiry };
  function restart(ms: number): void {
    limit.expiresAt = performance.now() + ms;
    limit.entry ??= limits.add(limit);
    if (!isTimerSet) setTimeout(endExpired, precisionMs);
    isTimerSet = true;
  }
  restart(limitMs);
  return { restart, end: () => endLimit(limit) };
}

function endLimit(limit: Limit): void {
  if (limit.entry) limits.remove(limit.entry);
  limit.entry = undefined;
}

function endExpired(): void {
  const now = performance.now();
  try {
    for (const limit of limits.items()) {
      // An earlier callback in this loop may have ended the limit.
      if (limit.expiresAt > now || !limit.entry) continue;
      endLimit(limit);
      limit.onExpiry();
    }
  } finally {
    // Sets the next timer even if a callback throws, so that the other limits still expire on time.
    isTimerSet = limits.size > 0;
    if (isTimerSet) setTimeout(endExpired, precisionMs);
  }
}
