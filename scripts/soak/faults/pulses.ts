import { setTimeout as sleep } from "node:timers/promises";
import { childrenOf } from "@gatehousehq/local-stack/runner/processes";

const defaultStoppedMs = 180;
const runningMs = 120;

function signal(pids: readonly number[], name: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // The process has ended since the directory was listed.
    }
  }
}

/**
 * Simulates a disk that stalls. Stops Postgres's child processes (backends, WAL writer, checkpointer) for 180 ms of
 * every 300 ms, or for `stoppedMs` each time, so that commits wait while holding their locks. Always resumes the processes. Needs Linux's /proc, but
 * not root.
 */
export async function stallPostgres(
  pid: number,
  { forMs, ended, stoppedMs = defaultStoppedMs }: { forMs: number; ended: AbortSignal; stoppedMs?: number },
): Promise<void> {
  const until = Date.now() + forMs;
  let stopped: number[] = [];
  const goOn = () => signal(stopped, "SIGCONT");
  process.on("exit", goOn);
  try {
    while (Date.now() < until && !ended.aborted) {
      stopped = childrenOf(pid);
      signal(stopped, "SIGSTOP");
      await sleep(stoppedMs);
      goOn();
      await sleep(runningMs);
    }
  } finally {
    goOn();
    process.off("exit", goOn);
  }
}
