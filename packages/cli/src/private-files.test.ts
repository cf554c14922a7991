import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readText, withLock, writeText } from "./private-files.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "private-files-"));
});
afterEach(() => rm(folder, { recursive: true }));

const modeOf = async (file: string) => (await stat(file)).mode & 0o777;

test("a new private file is readable only by its owner, and an existing file keeps its mode", async () => {
  const [secret, shared] = [join(folder, "new", "secret"), join(folder, "shared")];
  await writeText(secret, "a");
  expect([await readText(secret), await modeOf(secret)]).toEqual(["a", 0o600]);
  await writeFile(shared, "old", { mode: 0o644 });
  await writeText(shared, "new");
  expect([await readText(shared), await modeOf(shared)]).toEqual(["new", 0o644]);
});

test("writing to a symbolic link keeps the link and changes the file that it points to", async () => {
  const [target, link] = [join(folder, "target"), join(folder, "link")];
  await writeFile(target, "old");
  await symlink(target, link);
  await writeText(link, "new");
  expect(await readlink(link)).toBe(target);
  expect(await readFile(target, "utf8")).toBe("new");
});

test("reading a missing private file returns null", async () => {
  expect(await readText(join(folder, "absent"))).toBeNull();
});

test("concurrent callers of withLock run one after the other, even after one fails", async () => {
  let running = 0;
  const work = async (fails: boolean) => {
    running++;
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(running).toBe(1);
    running--;
    if (fails) throw new Error("failed");
  };
  const outcomes = await Promise.allSettled([true, false, false].map((fails) => withLock(folder, () => work(fails))));
  expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "fulfilled", "rejected"]);
});

test("the lock of a killed command is taken over at once, by one of several waiting commands after the other", async () => {
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  await writeFile(join(folder, "lock"), `${pid} ${hostname()}`);
  const began = performance.now();
  let running = 0;
  const work = async () => {
    expect(++running).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running--;
  };
  await Promise.all([1, 2, 3, 4].map(() => withLock(folder, work)));
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(await readdir(folder)).toEqual([]);
});

test.for([
  ["a running command", `${process.pid} ${hostname()}`],
  ["a command on another computer", `1 other.${hostname()}`],
  ["an unknown holder", ""],
])("the lock of %s is waited for", async ([, holder]) => {
  await writeFile(join(folder, "lock"), holder ?? "");
  let isDone = false;
  const waiting = withLock(folder, async () => (isDone = true));
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(isDone).toBe(false);
  await rm(join(folder, "lock"));
  await waiting;
});

test("the lock of a command that can't be looked up is taken over after a minute", async () => {
  const lock = join(folder, "lock");
  await mkdir(lock);
  const old = Date.now() / 1000 - 61;
  await utimes(lock, old, old);
  expect(await withLock(folder, async () => "done")).toBe("done");
});
