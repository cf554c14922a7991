import { randomUUID } from "node:crypto";
import { chmod, link, mkdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "./failure.ts";

const lockWaitMs = 15_000;
/** No request of a command takes this long, so an older lock was left behind, even if its process can't be looked up. */
const staleLockMs = 60_000;

/** Reads a text file; null if it does not exist. */
export async function readText(file: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Makes a folder that only its owner can open. */
export async function makePrivateFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
}

/**
 * Replaces a file in one step, so that readers see either the old or the new text. Follows a symbolic link instead of
 * replacing it.
 * @param options.mode the file's mode; by default the existing file's, or 0600
 */
export async function writeText(file: string, text: string, { mode }: { mode?: number } = {}): Promise<void> {
  const target = await realpath(file).catch((error) => {
    if (isMissing(error)) return file;
    throw error;
  });
  const existing = await stat(target).catch(() => null);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const temporary = `${target}.${randomUUID()}.tmp`;
  try {
    await writeFile(temporary, text, { mode: 0o600, flag: "wx" });
    await chmod(temporary, mode ?? (existing ? existing.mode & 0o777 : 0o600));
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Runs `work` under the folder's lock. Without the lock, two commands could use the same refresh token, which works
 * only once.
 * @throws Failure after 15 seconds of waiting
 */
export async function withLock<Result>(folder: string, work: () => Promise<Result>): Promise<Result> {
  await makePrivateFolder(folder);
  const lock = join(folder, "lock");
  const deadline = Date.now() + lockWaitMs;
  while (!(await takeLock(lock))) {
    if (Date.now() > deadline) {
      throw new Failure("unreachable", "Another gatehouse command is still running. Try again in a minute.");
    }
    await delay(50);
  }
  try {
    return await work();
  } finally {
    await rm(lock, { recursive: true, force: true });
  }
}

/** Takes the lock, whose file names the process that holds it. Removes the lock of a process that no longer runs. */
async function takeLock(lock: string): Promise<boolean> {
  try {
    await writeFile(lock, `${process.pid} ${hostname()}`, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw error;
  }
  const holder = await readFile(lock, "utf8").catch(() => "");
  const lockStat = await stat(lock).catch(() => null);
  if (!lockStat || !(hasEnded(holder) || Date.now() - lockStat.mtimeMs > staleLockMs)) return false;
  // Only one of several waiting commands can rename this lock. If it has renamed a newer one, it puts that back.
  const removed = `${lock}.${randomUUID()}`;
  await rename(lock, removed).catch(() => {});
  const removedHolder = await readFile(removed, "utf8").catch(() => "");
  if (removedHolder !== holder) await link(removed, lock).catch(() => {});
  await rm(removed, { recursive: true, force: true });
  return false;
}

/** Returns whether a lock's process ran on this computer and has ended. */
function hasEnded(holder: string): boolean {
  const [pid = "", host] = holder.split(" ");
  if (host !== hostname() || !/^[1-9]\d*$/.test(pid)) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return hasCode(error, "ESRCH");
  }
}

function isMissing(error: unknown): boolean {
  return hasCode(error, "ENOENT");
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
