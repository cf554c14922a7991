/** When each request of a fixed rate is due, whatever became of those before it. */
export type Schedule = {
  count: number;
  /** Milliseconds after the start. */
  dueMs: (index: number) => number;
  /** Those that have come due by then and were not taken yet, each once, in order. */
  takeDue: (elapsedMs: number) => number[];
};

/**
 * Plans an open loop: requests leave at their time, not when an earlier answer comes, and a latency counts from the time
 * a request was due. So a server that stalls is charged for all that would have come meanwhile (coordinated omission).
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
