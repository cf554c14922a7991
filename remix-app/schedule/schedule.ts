/** A maintenance task that all servers may start concurrently. The database lets only one server do it. */
export interface ScheduledTask {
  name: string;
  intervalMs: number;
  /** @throws on failure; the task is retried at the next interval */
  run: (signal: AbortSignal) => Promise<void>;
}

export interface ScheduleOptions {
  tasks: readonly ScheduledTask[];
  log: (line: string) => void;
}

/**
 * Runs each task at its interval, never twice concurrently. Logs a failure when it begins and when it ends, so that an
 * hour's outage logs two lines.
 * @returns a function that stops the schedule and aborts a running task
 */
export function startSchedule({ tasks, log }: ScheduleOptions): () => void {
  const ended = new AbortController();
  const timers = tasks.map((task) => {
    let failing = false;
    let underWay = false;
    return setInterval(async () => {
      if (underWay) return;
      underWay = true;
      try {
        await task.run(ended.signal);
        if (failing) log(`schedule task=${task.name} works again`);
        failing = false;
      } catch (error) {
        if (!failing && !ended.signal.aborted) log(`schedule task=${task.name} fails: ${String(error)}`);
        failing = true;
      } finally {
        underWay = false;
      }
    }, task.intervalMs).unref();
  });
  return () => {
    ended.abort();
    for (const timer of timers) clearInterval(timer);
  };
}
