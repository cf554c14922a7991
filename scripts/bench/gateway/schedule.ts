/** Plan of requests at a fixed rate. A request's due time does not depend on earlier requests. */
export type Schedule = {
  count: number;
  /** Returns a request's due time in milliseconds after the start. */
  dueMs: (index: number) => number;
  /** Returns the requests that are due by `elapsedMs` and haven't been taken yet, each once, in order. */
  takeDue: (elapsedMs: number) => number[];
};

/**
 * Plans an open loop. Requests leave on schedule, not when an earlier answer arrives, and latency counts from the time
 * a request was due. A stalling server is therefore charged for every request delayed by the stall (coordinated
 * omission).
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
