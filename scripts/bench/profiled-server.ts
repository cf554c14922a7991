import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../local-stack/ports.ts";
import { cpuProfile, selfTimeByOrigin } from "./profile.ts";

const startTimeoutMs = 15_000;
const host = "127.0.0.1";

/**
 * Runs a second identity server on the stack's database, with V8's profiler, while `load` asks it, once warm.
 * @param env the environment of an identity server; its port is chosen here
 * @param load how the server at a URL is asked; returns how many calls that were
 * @returns the calls, and the main thread's time in them by origin, in milliseconds
 */
export async function profileServer(
  env: Record<string, string>,
  load: (url: string) => Promise<number>,
): Promise<{ calls: number; times: Map<string, number> }> {
  const directory = await mkdtemp(path.join(tmpdir(), "gatehouse-profile-"));
  const port = await freePort();
  const server = spawn(
    process.execPath,
    ["--cpu-prof", `--cpu-prof-dir=${directory}`, "scripts/local-stack/services/identity/main.ts"],
    { env: { ...process.env, ...env, PORT: String(port) }, stdio: "ignore" },
  );
  const ended = new Promise<void>((resolve) => server.once("exit", () => resolve()));
  try {
    const url = `http://${host}:${port}`;
    await untilHealthy(url, server);
    await load(url);
    const from = clockMicroseconds();
    const calls = await load(url);
    const to = clockMicroseconds();
    server.kill("SIGTERM");
    await ended;
    const [file = ""] = await readdir(directory);
    const times = selfTimeByOrigin(cpuProfile.parse(JSON.parse(await readFile(path.join(directory, file), "utf8"))), {
      from,
      to,
    });
    return { calls, times };
  } finally {
    server.kill("SIGKILL");
    await rm(directory, { recursive: true, force: true });
  }
}

const clockMicroseconds = () => Number(process.hrtime.bigint() / 1_000n);

async function untilHealthy(url: string, server: ChildProcess): Promise<void> {
  const deadline = performance.now() + startTimeoutMs;
  while (server.exitCode === null && performance.now() < deadline) {
    const response = await fetch(`${url}/health`).catch(() => undefined);
    await response?.body?.cancel();
    if (response?.ok) return;
    await sleep(50);
  }
  throw new Error("The identity server with the profiler did not start.");
}
