import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type OwnedProcess, type ProcessIdentity, startOf } from "./processes.ts";

export type Watch = {
  add: (owned: OwnedProcess) => void;
  remove: (pid: number) => void;
  /** Returns the watchdog's own process. */
  identity: () => ProcessIdentity | undefined;
  close: () => void;
};

/** Starts the watchdog process, restarts it if it is killed, and reports the stack's processes to it. */
export function startWatch(): Watch {
  const owned = new Map<number, OwnedProcess>();
  let closed = false;
  let child = spawnWatchdog();

  function spawnWatchdog(): ChildProcess {
    const started = spawn(process.execPath, [fileURLToPath(new URL("./watchdog.ts", import.meta.url))], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    started.stdin?.on("error", () => undefined);
    started.on("exit", () => {
      if (closed) return;
      child = spawnWatchdog();
      for (const one of owned.values()) notify({ add: one });
    });
    return started;
  }

  function notify(message: { add: OwnedProcess } | { remove: number }): void {
    child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  return {
    add(one) {
      owned.set(one.pid, one);
      notify({ add: one });
    },
    remove(pid) {
      owned.delete(pid);
      notify({ remove: pid });
    },
    identity() {
      const startedAt = child.pid === undefined ? undefined : startOf(child.pid);
      return child.pid === undefined || startedAt === undefined ? undefined : { pid: child.pid, startedAt };
    },
    close() {
      closed = true;
      child.stdin?.end();
    },
  };
}
