import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { readManifest } from "../database/contents/releases.ts";

const run = promisify(execFile);
const installTimeoutMs = 10 * 60_000;

/**
 * Writes the files of a commit to a new folder. Uses a separate index, so that neither this clone's index nor its list
 * of worktrees changes.
 */
async function checkOut(commit: string, root: string): Promise<void> {
  const index = `${root}.index`;
  const env = { ...process.env, GIT_INDEX_FILE: index };
  await run("git", ["read-tree", commit], { env });
  await run("git", ["checkout-index", "--all", `--prefix=${root}/`], { env });
  await rm(index);
}

/** Returns the full id of a commit, or of a release's by its version, or null if it is not in this clone. */
async function findCommit(name: string): Promise<string | null> {
  const { releases } = await readManifest(".");
  const recorded = releases.find(({ version }) => version === name.replace(/^v/, ""))?.commit;
  return (await readGit(["rev-parse", "--verify", "--quiet", `${recorded ?? name}^{commit}`]))?.trim() ?? null;
}

async function readGit(args: string[]): Promise<string | null> {
  const done = await run("git", args, { maxBuffer: 2 ** 26 }).catch(() => null);
  return done?.stdout ?? null;
}

/**
 * Writes the code of a commit or release below `.local/against/` and installs the packages that it locks, unless both are there.
 * @throws Error if the commit is not in this clone, or the installation fails
 */
export async function prepareCommit(name: string, signal: AbortSignal): Promise<{ commit: string; root: string }> {
  const commit = await findCommit(name);
  if (commit === null) throw new Error(`Commit ${name} is not in this clone.`);
  const folder = path.resolve(".local/against", commit.slice(0, 12));
  const [root, stamp] = [path.join(folder, "code"), path.join(folder, "installed")];
  if (existsSync(stamp)) return { commit, root };
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await checkOut(commit, root);
  const args = ["ci", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];
  await run("npm", args, { cwd: root, timeout: installTimeoutMs, signal });
  await writeFile(stamp, commit);
  return { commit, root };
}
