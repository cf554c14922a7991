import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { StackDescription } from "../description.ts";

const readyLimitMs = 60_000;
const pollMs = 50;

/** A local-stack runner that a test started as a separate process. */
export type StackProcess = {
  child: ChildProcess;
  pid: number;
  /** Returns the text that the runner has printed for people so far. */
  said: () => string;
  /** Resolves with the printed JSON once the stack is ready. */
  ready: () => Promise<StackDescription>;
  /** Resolves with the exit code once the runner has ended; null if a signal ended it. */
  ended: () => Promise<number | null>;
};

/** Creates a data directory below `.local/`. @returns its path and how to remove it */
export async function newDataDir(): Promise<{ dataDir: string; remove: () => Promise<void> }> {
  mkdirSync(".local", { recursive: true });
  const dataDir = await mkdtemp(path.resolve(".local/test-fault-"));
  return { dataDir, remove: () => rm(dataDir, { recursive: true, force: true }) };
}

/**
 * Starts the runner on `dataDir`. By default, runs the embedded stack on any free ports. `args` replaces both options.
 */
export function startRunner(
  dataDir: string,
  { args = ["--embedded", "--ports", "auto"], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
): StackProcess {
  const child = spawn(process.execPath, ["scripts/start/main.ts", "--json", "--data-dir", dataDir, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  let output = "";
  let said = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr.on("data", (chunk) => {
    said += chunk;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    child,
    pid: child.pid ?? 0,
    said: () => said,
    ended: () => ended,
    async ready() {
      const deadline = Date.now() + readyLimitMs;
      while (Date.now() < deadline && child.exitCode === null) {
        if (output.endsWith("}\n")) return JSON.parse(output) as StackDescription;
        await sleep(pollMs);
      }
      throw new Error(`The stack did not become ready:\n${said}`);
    },
  };
}

/** Reads the running stack's current description. */
export function readDescription(dataDir: string): StackDescription {
  return JSON.parse(readFileSync(path.join(dataDir, "stack.json"), "utf8")) as StackDescription;
}

/** Waits until `probe` returns something, and fails with `what` on a timeout. */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  limitMs = 15_000,
): Promise<T> {
  const deadline = Date.now() + limitMs;
  while (Date.now() < deadline) {
    const found = await Promise.resolve()
      .then(probe)
      .catch(() => undefined);
    if (found !== undefined) return found;
    await sleep(pollMs);
  }
  throw new Error(`Not within ${limitMs / 1000} s: ${what}`);
}

/**
 * Returns the live processes of a stack: those in `pids`, and those with `dataDir` in their command line or
 * environment. Without /proc, returns only the live processes in `pids`.
 */
export function processesOf(dataDir: string, pids: readonly number[]): number[] {
  if (!existsSync("/proc/self")) return pids.filter(isAlive);
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .map(Number)
    .filter((pid) => pids.includes(pid) || mentions(pid, dataDir))
    .filter(isAlive);
}

function mentions(pid: number, text: string): boolean {
  return ["cmdline", "environ"].some((file) => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, "utf8").includes(text);
    } catch {
      return false;
    }
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync("/proc/self") || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
