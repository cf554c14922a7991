import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { readStat } from "./cpu.ts";

/** The CPU time and memory that a process and all its descendants have used. */
export type TreeUse = { cpuMs: number; rssBytes: number };

/**
 * Reads the CPU time and memory of a process and its descendants from /proc. The CPU time includes descendants that
 * have ended. Returns undefined outside Linux.
 */
export function readTree(root: number): TreeUse | undefined {
  if (process.platform !== "linux") return undefined;
  const all = readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(readStat);
  const members = new Set([root]);
  for (let before = 0; before < members.size; ) {
    before = members.size;
    for (const { pid, parent } of all) if (members.has(parent)) members.add(pid);
  }
  const own = all.filter(({ pid }) => members.has(pid));
  return {
    cpuMs: own.reduce((sum, { cpuMs, endedChildrenMs }) => sum + cpuMs + endedChildrenMs, 0),
    rssBytes: own.reduce((sum, { pid }) => sum + readRss(pid), 0),
  };
}

/** Resets the peak that `readPeakMemory` returns (clear_refs in proc_pid_clear_refs(5)). */
export function resetPeakMemory(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/**
 * Returns the most memory that a process has had, in bytes. Leaves out the pages of its program's file, which the kernel
 * can drop, so that they don't count toward a container's limit.
 */
export const readPeakMemory = (pid: number) => readStatus(pid, "VmHWM") - readStatus(pid, "RssFile");

/** Returns the memory that a process has, in bytes, without the pages of its program's file. */
export const readMemory = (pid: number) => readStatus(pid, "RssAnon");

/** Reads VmRSS, the physical memory that a process has, in bytes. */
const readRss = (pid: number) => readStatus(pid, "VmRSS");

/** Reads a size from proc_pid_status(5). Returns 0 for a process that has just ended. */
function readStatus(pid: number, name: "VmRSS" | "VmHWM" | "RssFile" | "RssAnon"): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
