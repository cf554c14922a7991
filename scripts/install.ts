import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { lockDirectory } from "./lock-directory.ts";

const execute = promisify(execFile);
const installTimeoutMs = 10 * 60_000;

/** Packages that one suite needs, as npm's `package.json` names them. */
type Manifest = { dependencies: Record<string, string>; allowScripts?: Record<string, boolean> };

/** Returns the folder with a suite's packages. */
export const installedFolder = (root: string, name: string): string => path.join(root, ".local", name);

/**
 * Installs packages that only one suite needs below `.local/`, unless these versions are there.
 * @returns the folder that has their `node_modules`
 * @throws StackError if npm cannot install them
 */
export async function installBelow(root: string, { name, manifest }: { name: string; manifest: Manifest }) {
  const folder = installedFolder(root, name);
  const stamp = path.join(folder, "installed.json");
  const wanted = JSON.stringify({ name: `gatehouse-${name}`, private: true, ...manifest }, null, 2);
  await mkdir(folder, { recursive: true });
  const unlock = await lockDirectory(folder);
  try {
    if ((await readFile(stamp, "utf8").catch(() => undefined)) === wanted) return folder;
    await rm(stamp, { force: true });
    await rm(path.join(folder, "node_modules"), { recursive: true, force: true });
    await writeFile(path.join(folder, "package.json"), wanted);
    const packages = Object.entries(manifest.dependencies).map(([dependency, version]) => `${dependency} ${version}`);
    console.error(`installing ${packages.join(", ")} in ${path.relative(root, folder)} …`);
    const args = ["install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"];
    await execute("npm", args, { cwd: folder, timeout: installTimeoutMs }).catch((error: unknown) => {
      throw new StackError(
        `npm could not install ${packages.join(", ")}, which only this needs. Check that npm reaches its registry.\n${messageOf(error)}`,
      );
    });
    await writeFile(stamp, wanted);
    return folder;
  } finally {
    unlock();
  }
}

/** Installs the Deno on which hosted Supabase's runtime is built, for `LOCAL_DENO=deno-hosted`. */
export async function installHostedDeno(root: string): Promise<void> {
  await installBelow(root, {
    name: "deno-hosted",
    manifest: { dependencies: { deno: "2.1.4" }, allowScripts: { deno: true } },
  });
}
