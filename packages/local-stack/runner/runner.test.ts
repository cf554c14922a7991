import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { holdFreePort } from "../ports.ts";
import { runInOrder, stopRounds } from "./graph.ts";
import { createLog, isAlert } from "./log.ts";
import { endGroups, isAlive, startOf } from "./processes.ts";
import { createRun } from "./run.ts";
import { takeDataDir } from "./run-record.ts";
import type { Service, Step } from "./service.ts";
import { countRecentExits, restartWindowMs } from "./supervise.ts";

const port = await holdFreePort();
afterAll(port.release);

const task = (name: string, dependsOn: string[] = []): Step => ({ kind: "task", name, dependsOn, run: async () => {} });
const service = (name: string, dependsOn: string[] = []): Service => ({
  kind: "service",
  name,
  dependsOn,
  command: "true",
  args: [],
  env: {},
  cwd: "/",
  ports: [port],
  health: { check: async () => {} },
  startLimitMs: 1,
  stopSignal: "SIGTERM",
  stopLimitMs: 1,
});

test("the runner starts a step after its dependencies, and runs independent steps concurrently", async () => {
  const begun: string[] = [];
  const open = new Set<string>();
  let most = 0;
  await runInOrder([task("c", ["a", "b"]), task("a"), task("b"), task("d", ["c", "left out"])], async ({ name }) => {
    begun.push(name);
    open.add(name);
    most = Math.max(most, open.size);
    await sleep(5);
    open.delete(name);
  });
  expect(begun).toEqual(["a", "b", "c", "d"]);
  expect(most).toBe(2);
});

test("the runner starts no further steps after a failure", async () => {
  const begun: string[] = [];
  const run = runInOrder([task("a"), task("b", ["a"])], async ({ name }) => {
    begun.push(name);
    throw new Error(`${name} failed`);
  });
  await expect(run).rejects.toThrow("a failed");
  expect(begun).toEqual(["a"]);
});

test("the runner refuses steps that depend on each other in a cycle", async () => {
  await expect(runInOrder([task("a", ["b"]), task("b", ["a"])], async () => {})).rejects.toThrow("a → b → a");
});

test("stops a service before the services that it depends on directly or through a task", () => {
  const steps = [service("db"), task("migrations", ["db"]), service("api", ["migrations"]), service("mail")];
  expect(stopRounds(steps)).toEqual([["api"], ["db", "mail"]]);
});

test("counts a service's crashes within one minute", () => {
  const now = 1_000_000;
  expect(countRecentExits([now - restartWindowMs, now - restartWindowMs + 1, now], now)).toBe(2);
});

test.each([
  ["listening on 3000", false],
  ["Error: no such file", true],
  ["WARN disk is nearly full", true],
  ['{"level":"info","error":null}', false],
  ['{"level":"warning","msg":"x"}', true],
  ['{"level":50,"msg":"x"}', true],
  ["{ not json, an error", true],
])("shows a service's output on the terminal if it is a warning or an error: %s → %s", (line, isAlertLine) => {
  expect(isAlert(line)).toBe(isAlertLine);
});

test("ends leftover processes, even if they ignore SIGTERM, but not another process that reuses a pid", async () => {
  const stubborn = spawn(
    process.execPath,
    ["-e", "process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1e6)"],
    {
      detached: true,
      stdio: ["ignore", "pipe", "ignore"],
    },
  );
  await new Promise((resolve) => stubborn.stdout.once("data", resolve));
  const pid = stubborn.pid ?? 0;
  const startedAt = startOf(pid) ?? "";
  const owned = { pid, startedAt, name: "stubborn", stopSignal: "SIGTERM" } as const;

  expect(await endGroups([{ ...owned, startedAt: `${startedAt}0` }], 200)).toEqual([]);
  expect(isAlive(owned)).toBe(true);
  expect(await endGroups([owned], 200)).toEqual([owned]);
  expect(isAlive(owned)).toBe(false);
});

test("a run whose data directory was deleted reports the deletion and still stops all services", async () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "gatehouse-run-"));
  const errors: Error[] = [];
  const lasting = { ...service("lasting"), command: process.execPath, args: ["-e", "setInterval(() => {}, 1e6)"] };
  const run = createRun({
    steps: [{ ...lasting, startLimitMs: 5_000, stopLimitMs: 5_000 }],
    log: createLog({ directory: path.join(dataDir, "logs"), terminal: process.stderr, verbose: false }),
    record: await takeDataDir({ dataDir, onLeftover: () => {} }),
    onGiveUp: (error) => errors.push(error),
    onChange: () => {},
  });
  await run.start();
  const owned = run.processes();
  rmSync(dataDir, { recursive: true });
  await run.stop();
  expect(owned.map(isAlive)).toEqual([false]);
  expect(errors.map(({ message }) => message)).toEqual([expect.stringContaining("was deleted while the stack ran")]);
});
