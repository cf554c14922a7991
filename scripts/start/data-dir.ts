import { accessSync, chmodSync, constants, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { codeOf, messageOf, StackError } from "@gatehousehq/local-stack/errors";

/**
 * Creates the data directory and checks that we can write there. If we run as root, also lets other accounts enter the
 * directory, because Postgres runs as another account. Files that contain secrets restrict access themselves.
 * @throws StackError that says why we cannot write, and what to do
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

/**
 * Creates a directory with its parents. Node's recursive mkdir never returns if a file system refuses with ENOENT, as
 * /proc does.
 */
function makeDirectory(directory: string): void {
  if (existsSync(directory) && statSync(directory).isDirectory()) return;
  const parent = path.dirname(directory);
  if (!existsSync(parent)) makeDirectory(parent);
  mkdirSync(directory, { mode: 0o755 });
}
