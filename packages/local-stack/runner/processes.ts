import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { codeOf } from "../errors.ts";

/** Identifies a process even if its pid is reused later. */
export type ProcessIdentity = { pid: number; startedAt: string };

/** One of our process groups: its leader, and the signal to stop it. */
export type OwnedProcess = ProcessIdentity & { name: string; stopSignal: NodeJS.Signals };

type Stat = { parent: number; group: number; startTicks: number; zombie: boolean };

function readStat(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return {
      parent: Number(fields[1]),
      group: Number(fields[2]),
      startTicks: Number(fields[19]),
      zombie: fields[0] === "Z",
    };
  } catch {
    return undefined;
  }
}

function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

/**
 * Returns a value that tells a process from any later process with the same pid; undefined if the process does not
 * exist. On Linux the value consists of boot id and start time in clock ticks; elsewhere it is the start time from
 * `ps`.
 */
export function startOf(pid: number): string | undefined {
  if (process.platform === "linux") {
    const stat = readStat(pid);
    return stat && !stat.zombie ? `${bootId()}:${stat.startTicks}` : undefined;
  }
  return spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).stdout.trim() || undefined;
}

/** Returns the parent process of `pid`, if /proc shows that `pid` is a shell started with `-c`. */
export function startedShellOf(pid: number): number | undefined {
  try {
    const isShell = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[1] === "-c";
    return isShell ? readStat(pid)?.parent : undefined;
  } catch {
    return undefined;
  }
}

/** Reports whether exactly this process is still running. */
export function isAlive({ pid, startedAt }: ProcessIdentity): boolean {
  return startOf(pid) === startedAt;
}

/** Reports whether a member of the group is alive: its leader or, if /proc shows it, another process. */
function groupIsAlive(owned: ProcessIdentity): boolean {
  if (isAlive(owned)) return true;
  if (process.platform !== "linux") return false;
  const [boot, ticks] = owned.startedAt.split(":");
  if (boot !== bootId() || startOf(owned.pid) !== undefined) return false;
  return groupMembers(owned.pid).some((pid) => {
    const stat = readStat(pid);
    return stat !== undefined && !stat.zombie && stat.startTicks >= Number(ticks);
  });
}

/** Lists the processes of a group, if /proc shows them. */
export function groupMembers(group: number): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && readStat(Number(entry))?.group === group)
    .map(Number);
}

/** Lists the children of a process, if /proc shows them. */
export function childrenOf(parent: number): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && readStat(Number(entry))?.parent === parent)
    .map(Number);
}

/** Signals a whole process group. A group that has already ended is not an error. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (codeOf(error) !== "ESRCH" && codeOf(error) !== "EPERM") throw error;
  }
}

/**
 * Ends orphaned process groups: each gets its own stop signal, and SIGKILL after `limitMs`. Ignores a pid that now
 * belongs to another process.
 * @returns the groups that it had to end
 */
export async function endGroups(owned: readonly OwnedProcess[], limitMs: number): Promise<OwnedProcess[]> {
  const found = owned.filter(groupIsAlive);
  for (const one of found) signalGroup(one.pid, one.stopSignal);
  const deadline = Date.now() + limitMs;
  while (found.some(groupIsAlive) && Date.now() < deadline) await sleep(50);
  for (const one of found.filter(groupIsAlive)) signalGroup(one.pid, "SIGKILL");
  while (found.some(groupIsAlive) && Date.now() < deadline + 2_000) await sleep(50);
  return found;
}
