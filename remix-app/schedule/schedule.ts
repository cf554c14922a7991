import { logEvent } from "#shared/log.ts";

/** A maintenance task that all servers may start concurrently. The database lets only one server do it. */
export interface ScheduledTask {
  name: string;
  intervalMs: number;
  /** @throws on failure; the task is retried at the next interval */
  run: (signal: AbortSignal) => Promise<void>;
}

export interface ScheduleOptions {
  tasks: readonly ScheduledTask[];
  /** Receives the result of each run of a task. */
  count?: (run: { task: string; hasFailed: boolean }) => void;
}

/**
 * Runs each task at its interval, never twice concurrently. Logs a failure when it begins and when it ends, so that an
 * hour's outage logs two lines.
 * @returns a function that stops the schedule, aborts running tasks, and resolves when they have ended
 */
export function startSchedule({ tasks, count = () => {} }: ScheduleOptions): () => Promise<void> {
  const abortController = new AbortController();
  const running = new Map<ScheduledTask, Promise<void>>();
  const timers = tasks.map((task) => {
    let isFailing = false;
    async function run(): Promise<void> {
      try {
        await task.run(abortController.signal);
        if (isFailing) logTask("info", task.name, "works again");
        isFailing = false;
        count({ task: task.name, hasFailed: false });
      } catch (error) {
        if (abortController.signal.aborted) return;
        if (!isFailing) logTask("error", task.name, `fails: ${String(error)}`);
        isFailing = true;
        count({ task: task.name, hasFailed: true });
      } finally {
        running.delete(task);
      }
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

function logTask(level: "info" | "error", task: string, message: string): void {
  logEvent({ level, event: "schedule", members: { task, message } }, () => `schedule task=${task} ${message}`);
}
