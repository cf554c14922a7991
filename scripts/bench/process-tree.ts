import { readdirSync, readFileSync } from "node:fs";
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

/** Reads VmRSS from proc_pid_status(5). Returns 0 for a process that has just ended. */
function readRss(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
