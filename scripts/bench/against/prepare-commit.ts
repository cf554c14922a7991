import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { checkOut, findCommit, readFileAt } from "../../releases/check-out.ts";

const execute = promisify(execFile);
const installTimeoutMs = 10 * 60_000;
const lock = "package-lock.json";

/** The code of a commit with its packages, ready to start. */
export type PreparedCommit = { commit: string; root: string };

/**
 * Writes a commit's code below `.local/against/` unless it is there, and installs the packages that it locks. If those
 * are the installed ones, it uses them.
 * @throws Error if the commit is not in this clone, or the installation fails
 */
export async function prepareCommit(name: string, signal: AbortSignal): Promise<PreparedCommit> {
  const commit = await findCommit(name);
  if (commit === null) throw new Error(`Commit ${name} is not in this clone.`);
  const folder = path.resolve(".local/against", commit.slice(0, 12));
  const [root, stamp] = [path.join(folder, "code"), path.join(folder, "installed")];
  if (existsSync(stamp)) return { commit, root };
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await checkOut(commit, root);
  const [theirs, ours] = [await readFileAt(commit, lock), await readFile(lock, "utf8")];
  if (theirs === ours) await symlink(path.resolve("node_modules"), path.join(root, "node_modules"));
  else {
    const options = { cwd: root, timeout: installTimeoutMs, signal };
    await execute("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], options);
  }
  await writeFile(stamp, commit);
  return { commit, root };
}
