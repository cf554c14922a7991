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
 * @returns a function that stops the schedule, aborts running tasks, and resolves when they have ended
 */
export function startSchedule({ tasks, log }: ScheduleOptions): () => Promise<void> {
  const abortController = new AbortController();
  const running = new Map<ScheduledTask, Promise<void>>();
  const timers = tasks.map((task) => {
    let isFailing = false;
    async function run(): Promise<void> {
      try {
        await task.run(abortController.signal);
        if (isFailing) log(`schedule task=${task.name} works again`);
        isFailing = false;
      } catch (error) {
        if (!isFailing && !abortController.signal.aborted) log(`schedule task=${task.name} fails: ${String(error)}`);
        isFailing = true;
      }
      running.delete(task);
    }
    return setInterval(() => {
      if (!running.has(task)) running.set(task, run());
    }, task.intervalMs).unref();
  });
  return async () => {
    abortController.abort();
    for (const timer of timers) clearInterval(timer);
    await Promise.all(running.values());
  };
}
