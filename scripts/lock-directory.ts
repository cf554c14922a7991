import { randomBytes } from "node:crypto";
import { linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { codeOf } from "@gatehousehq/local-stack/errors";
import { isAlive, type ProcessIdentity, startOf } from "@gatehousehq/local-stack/runner/processes";

/**
 * Waits until the directory has no other lock, and takes it. Ignores a lock whose owner has exited.
 * @returns a function that releases the lock
 */
export async function lockDirectory(directory: string): Promise<() => void> {
  const file = path.join(directory, ".lock");
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  const self: ProcessIdentity = { pid: process.pid, startedAt: startOf(process.pid) ?? "" };
  writeFileSync(draft, JSON.stringify(self));
  try {
    for (;;) {
      try {
        linkSync(draft, file);
        return () => rmSync(file, { force: true });
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
        if (!holderIsAlive(file)) rmSync(file, { force: true });
        else await sleep(100);
      }
    }
  } finally {
    rmSync(draft, { force: true });
  }
}

function holderIsAlive(file: string): boolean {
  try {
    return isAlive(JSON.parse(readFileSync(file, "utf8")) as ProcessIdentity);
  } catch {
    return false;
  }
}
