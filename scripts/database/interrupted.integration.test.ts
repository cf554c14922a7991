import { spawn } from "node:child_process";
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";

const main = path.join(import.meta.dirname, "main.ts");

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "gatehouse-interrupted-"));
  await chmod(folder, 0o755);
});
afterEach(() => rm(folder, { recursive: true }));

test.for(["SIGINT", "SIGTERM"] as const)(
  "generating a migration leaves nothing behind when %s arrives while Postgres is starting",
  async (signal) => {
    const env = { ...process.env, TMPDIR: folder };
    const command = spawn(process.execPath, [main, "--check"], { env, stdio: "ignore" });
    const exited = new Promise((resolve) => command.once("exit", (code) => resolve(code)));
    const deadline = performance.now() + 10_000;
    while ((await readdir(folder)).length === 0 && performance.now() < deadline) await sleep(5);
    expect(await readdir(folder)).not.toEqual([]);
    command.kill(signal);
    expect(await exited).toBe(1);
    expect(await readdir(folder)).toEqual([]);
  },
);
