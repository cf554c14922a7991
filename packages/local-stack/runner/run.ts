import type { ChildProcess } from "node:child_process";
import { errorOf } from "../errors.ts";
import { runInOrder, stopRounds } from "./graph.ts";
import type { Log } from "./log.ts";
import { endGroups, type OwnedProcess, signalGroup, startOf } from "./processes.ts";
import type { RunRecord } from "./run-record.ts";
import type { Step } from "./service.ts";
import { type Supervised, supervise } from "./supervise.ts";
import { startWatch } from "./watch.ts";

export type Run = {
  /** Resolves once every step is done and every service answers. */
  start: () => Promise<void>;
  /** Resolves once no step is running, whether or not the steps succeeded. */
  settle: () => Promise<void>;
  processes: () => OwnedProcess[];
  /** Stops everything, dependants first. Can be called more than once. */
  stop: () => Promise<void>;
  /** Kills everything immediately. */
  kill: () => void;
};

/** How long a task's process may take to end when everything stops. */
const taskLimitMs = 3_000;

/**
 * Creates a run of the local stack. The run starts the steps, restarts services that die, and leaves no process behind.
 * It calls `onGiveUp` if a service does not stay up after its start or if the data directory is deleted, and `onChange`
 * whenever a process starts or ends.
 */
export function createRun(options: {
  steps: readonly Step[];
  log: Log;
  record: RunRecord;
  onGiveUp: (error: Error) => void;
  onChange: (processes: OwnedProcess[]) => void;
}): Run {
  const { steps, log, record, onGiveUp, onChange } = options;
  const watch = startWatch();
  const supervised = new Map<string, Supervised>();
  let stopped: Promise<void> | undefined;

  const adopted = new Map<number, OwnedProcess>();
  const startedSteps: Promise<void>[] = [];
  log.mute(false);

  const processes = () =>
    [...supervised.values()].map((one) => one.owned()).filter((one): one is OwnedProcess => one !== undefined);
  /**
   * Records the running processes. Passes errors to `onGiveUp` and never throws, because a caller that handles the exit
   * of a process must be able to finish.
   */
  const note = () => {
    try {
      record.update([...processes(), ...adopted.values()], watch.identity());
      onChange(processes());
    } catch (error) {
      onGiveUp(errorOf(error));
    }
  };

  function adopt(name: string, child: ChildProcess): void {
    const { pid } = child;
    if (pid === undefined) return;
    const owned: OwnedProcess = { pid, startedAt: startOf(pid) ?? "", name, stopSignal: "SIGTERM" };
    adopted.set(pid, owned);
    watch.add(owned);
    if (stopped) signalGroup(pid, "SIGKILL");
    note();
    child.once("exit", () => {
      signalGroup(pid, "SIGKILL");
      adopted.delete(pid);
      watch.remove(pid);
      if (stopped === undefined) note();
    });
  }

  for (const step of steps) {
    if (step.kind !== "service") continue;
    const one = supervise(step, {
      log,
      onGiveUp,
      onSpawn: (owned) => {
        watch.add(owned);
        note();
      },
      onExit: (owned) => {
        watch.remove(owned.pid);
        note();
      },
    });
    supervised.set(step.name, one);
  }

  async function startStep(step: Step): Promise<void> {
    if (stopped) return;
    const since = performance.now();
    if (step.kind === "task") await step.run(adopt);
    else await supervised.get(step.name)?.start();
    const seconds = ((performance.now() - since) / 1000).toFixed(1);
    if (!stopped)
      log.print(step.name, step.kind === "task" ? `done in ${seconds} s` : `up on ${step.ports[0].port}, ${seconds} s`);
  }

  async function stopAll(): Promise<void> {
    log.mute(true);
    await endGroups([...adopted.values()], taskLimitMs);
    for (const round of stopRounds(steps)) {
      await Promise.all(round.map((name) => supervised.get(name)?.stop()));
    }
    watch.close();
  }

  return {
    start: () =>
      runInOrder(steps, (step) => {
        const start = startStep(step);
        startedSteps.push(start);
        return start;
      }),
    settle: async () => void (await Promise.allSettled(startedSteps)),
    processes,
    stop() {
      stopped ??= stopAll();
      return stopped;
    },
    kill() {
      for (const one of supervised.values()) one.kill();
      for (const pid of adopted.keys()) signalGroup(pid, "SIGKILL");
    },
  };
}
