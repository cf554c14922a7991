/** A piece of upkeep that may run on every server at once: the database lets one do it. */
export interface ScheduledTask {
  name: string;
  intervalMs: number;
  /** @throws when it could not be done; it is tried again at the next interval */
  run: (signal: AbortSignal) => Promise<void>;
}

export interface ScheduleOptions {
  tasks: readonly ScheduledTask[];
  log: (line: string) => void;
}

/**
 * Runs each task at its interval, never twice at once. A failure is logged when it begins and when it is over, so that
 * an outage of an hour is two lines.
 * @returns how to end it; a task under way is aborted
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
