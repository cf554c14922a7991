import { logEvent } from "#shared/log.ts";

/** A maintenance task that all servers may start concurrently. The database lets only one server do it. */
export interface ScheduledTask {
  name: string;
  intervalMs: number;
  /** @throws on failure; the task is retried at the next interval */
  run: (signal: AbortSignal) => Promise<void>;
  /** Resolves once the work that runs have left in the background has ended. */
  settle?: () => Promise<unknown>;
}

/** Receives the result of each run of a task. */
export type CountTask = (run: { task: string; hasFailed: boolean }) => void;

export interface ScheduleOptions {
  tasks: readonly ScheduledTask[];
  count?: CountTask;
}

/** A server's tasks. Calls during a task's run share that run, so a task never runs twice concurrently in a process. */
export interface Schedule {
  /** Runs each task at its interval, until the schedule is stopped. */
  start: () => void;
  /** Runs each task once, with its work in the background. @returns the names of the tasks, by outcome */
  runOnce: (signal: AbortSignal) => Promise<{ completed: string[]; failed: string[] }>;
  /** Aborts running tasks, resolves when they and their work in the background have ended, and runs none any more. */
  stop: () => Promise<void>;
}

/**
 * Creates a schedule. It logs a task's failure when it begins and when it ends, so that an hour's outage logs two lines.
 */
export function createSchedule({ tasks, count = () => {} }: ScheduleOptions): Schedule {
  const runners = tasks.map((task) => ({ ...task, ...createRunner(task, count) }));
  const stopping = new AbortController();
  let timers: NodeJS.Timeout[] = [];
  return {
    start() {
      timers = runners.map(({ run, intervalMs }) => setInterval(() => void run(stopping.signal), intervalMs).unref());
    },
    async runOnce(limit) {
      const signal = AbortSignal.any([limit, stopping.signal]);
      const outcomes = await Promise.all(
        runners.map(async ({ name, run, settle }) => {
          const succeeded = await run(signal);
          await settle?.();
          return { name, succeeded };
        }),
      );
      const namesOf = (wanted: boolean) =>
        outcomes.filter(({ succeeded }) => succeeded === wanted).map(({ name }) => name);
      return { completed: namesOf(true), failed: namesOf(false) };
    },
    async stop() {
      stopping.abort();
      for (const timer of timers) clearInterval(timer);
      await Promise.all(
        runners.map(async ({ idle, settle }) => {
          await idle();
          await settle?.();
        }),
      );
    },
  };
}

interface Runner {
  /** Runs the task, or joins its current run. The result says whether the run succeeded. */
  run: (signal: AbortSignal) => Promise<boolean>;
  /** Resolves when the task is not running. */
  idle: () => Promise<unknown>;
}

function createRunner({ name, run }: ScheduledTask, count: CountTask): Runner {
  let isFailing = false;
  let current: Promise<boolean> | undefined;

  async function attempt(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    try {
      await run(signal);
      if (isFailing) logTask("info", name, "works again");
      isFailing = false;
    } catch (error) {
      const isStopped = signal.aborted && signal.reason.name !== "TimeoutError";
      if (isStopped) return false;
      if (!isFailing) logTask("error", name, `fails: ${String(error)}`);
      isFailing = true;
    }
    count({ task: name, hasFailed: isFailing });
    return !isFailing;
  }

  return {
    run(signal) {
      current ??= attempt(signal).finally(() => {
        current = undefined;
      });
      return current;
    },
    idle: async () => current,
  };
}

function logTask(level: "info" | "error", task: string, message: string): void {
  logEvent({ level, event: "schedule", members: { task, message } }, () => `schedule task=${task} ${message}`);
}
