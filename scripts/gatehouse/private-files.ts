import { randomUUID } from "node:crypto";
import { chmod, mkdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "./failure.ts";

const lockWaitMs = 15_000;
/** No request of a command takes this long, so an older lock was left behind by a killed command. */
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

async function takeLock(lock: string): Promise<boolean> {
  try {
    await mkdir(lock);
    return true;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  const taken = await stat(lock).catch(() => null);
  if (taken && Date.now() - taken.mtimeMs > staleLockMs) await rm(lock, { recursive: true, force: true });
  return false;
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
