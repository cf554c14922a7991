import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { checkOut, findCommit } from "../../releases/check-out.ts";

const execute = promisify(execFile);
const installTimeoutMs = 10 * 60_000;

/**
 * Writes a commit's code below `.local/against/` and installs the packages that it locks, unless both are there.
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
  await execute("npm", args, { cwd: root, timeout: installTimeoutMs, signal });
  await writeFile(stamp, commit);
  return { commit, root };
}
