import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os";

/** The machine and the versions that were measured. */
export type Machine = {
  takenAt: string;
  commit: string;
  changed: boolean;
  cpus: string;
  memoryGb: number;
  kernel: string;
  loadBefore: number;
  versions: Record<string, string>;
};

export function describeMachine(): Machine {
  const { version, devDependencies } = JSON.parse(
    readFileSync(new URL("../../../package.json", import.meta.url), "utf8"),
  ) as { version: string; devDependencies: Record<string, string> };
  return {
    takenAt: new Date().toISOString(),
    commit: git("rev-parse", "--short", "HEAD"),
    changed: git("status", "--porcelain") !== "",
    cpus: `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? "unknown"}`,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    loadBefore: loadavg()[0] ?? 0,
    versions: {
      gatehouse: version,
      node: process.versions.node,
      deno: devDependencies.deno ?? "",
    },
  };
}

/** Returns one sentence that says when, where and on which versions the figures were taken. */
export function machineText(machine: Machine): string {
  const { takenAt, commit, changed, cpus, memoryGb, kernel, loadBefore, versions } = machine;
  const [postgres = ""] = /^\S+/.exec(versions.postgres ?? "") ?? [];
  return (
    `Taken ${takenAt.slice(0, 16).replace("T", " ")} UTC at commit ${commit}${changed ? " with changes" : ""}: ${cpus}, ` +
    `${memoryGb} GB, Linux ${kernel}, load ${loadBefore.toFixed(1)} before; ` +
    `Node ${versions.node}, Deno ${versions.deno}, Postgres ${postgres}.`
  );
}

/** Returns a warning if other work shared the machine from the start. */
export function busyWarning({ loadBefore }: Pick<Machine, "loadBefore">, cores = availableParallelism()): string[] {
  const mostShare = 0.5;
  if (loadBefore <= cores * mostShare) return [];
  return [`The machine was busy (load ${loadBefore.toFixed(1)} on ${cores} cores), so times and rates say little.`];
}

function git(...args: string[]): string {
  try {
    return execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return "";
  }
}
