/** Plan of requests at a fixed rate. A request's due time does not depend on earlier requests. */
export type Schedule = {
  count: number;
  /** Returns a request's due time in milliseconds after the start. */
  dueMs: (index: number) => number;
  /** Returns the requests that are due by `elapsedMs` and haven't been taken yet, each once, in order. */
  takeDue: (elapsedMs: number) => number[];
};

/**
 * Plans an open loop: requests leave on schedule, even if earlier requests are unanswered. Latency counts from the time
 * a request was due, so it includes any delay from a stalled server. This avoids coordinated omission.
 */
export function createSchedule({ perSecond, durationMs }: { perSecond: number; durationMs: number }): Schedule {
  const everyMs = 1_000 / perSecond;
  const count = Math.max(1, Math.floor(durationMs / everyMs));
  const dueMs = (index: number) => index * everyMs;
  let next = 0;
  return {
    count,
    dueMs,
    takeDue(elapsedMs) {
      const due: number[] = [];
      for (; next < count && dueMs(next) <= elapsedMs; next += 1) due.push(next);
      return due;
    },
  };
}
