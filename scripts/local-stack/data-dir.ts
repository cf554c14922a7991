import { accessSync, chmodSync, constants, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { codeOf, messageOf, StackError } from "./errors.ts";

/**
 * Makes the data directory and sees that we can write there. Root's lets the account that Postgres runs as pass
 * through; what is secret inside has modes of its own.
 * @throws StackError that says why we cannot, and what to do
 */
export function prepareDataDir(dataDir: string): void {
  try {
    makeDirectory(dataDir);
    accessSync(dataDir, constants.W_OK | constants.X_OK);
    const probe = path.join(dataDir, `.write-${process.pid}`);
    writeFileSync(probe, "");
    rmSync(probe);
    if (process.getuid?.() === 0 && (statSync(dataDir).mode & 0o001) === 0) chmodSync(dataDir, 0o711);
  } catch (error) {
    const reasons: Record<string, string> = {
      EACCES: "you may not write there",
      EPERM: "you may not write there",
      EROFS: "its file system is read-only",
      ENOSPC: "the disk is full",
      EEXIST: "a file of that name is in the way",
      ENOTDIR: "a file is in the way",
      ENOENT: "it cannot be made there",
    };
    const reason = reasons[codeOf(error) ?? ""] ?? messageOf(error);
    throw new StackError(
      `The stack cannot keep its data in ${dataDir}: ${reason}.\n` +
        "Make the directory writable for you, or choose another: npm start -- --data-dir <directory>",
    );
  }
}

/** Like a recursive mkdir, which never returns in Node where a file system refuses with ENOENT, as /proc does. */
function makeDirectory(directory: string): void {
  if (existsSync(directory) && statSync(directory).isDirectory()) return;
  const parent = path.dirname(directory);
  if (!existsSync(parent)) makeDirectory(parent);
  mkdirSync(directory, { mode: 0o755 });
}
