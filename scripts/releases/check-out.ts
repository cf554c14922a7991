import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * Writes the files of a commit to a new folder. Uses a separate index, so that neither this clone's index nor its list
 * of worktrees changes.
 */
export async function checkOut(commit: string, root: string): Promise<void> {
  const index = `${root}.index`;
  const env = { ...process.env, GIT_INDEX_FILE: index };
  await run("git", ["read-tree", commit], { env });
  await run("git", ["checkout-index", "--all", `--prefix=${root}/`], { env });
  await rm(index);
}

/** Returns the full id of a commit, or null if it is not in this clone. */
export async function findCommit(name: string): Promise<string | null> {
  return (await readGit(["rev-parse", "--verify", "--quiet", `${name}^{commit}`]))?.trim() ?? null;
}

/** Returns the text of a file at a commit, or null if there is none. */
export const readFileAt = (commit: string, file: string): Promise<string | null> =>
  readGit(["show", `${commit}:${file}`]);

async function readGit(args: string[]): Promise<string | null> {
  const done = await run("git", args, { maxBuffer: 2 ** 26 }).catch(() => null);
  return done?.stdout ?? null;
}
