import { spawn } from "node:child_process";
import { createWriteStream, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { StackError } from "@gatehousehq/local-stack/errors";
import type { Adopt } from "@gatehousehq/local-stack/runner/service";
import { hashFiles } from "../hash-files.ts";
import { lockDirectory } from "../lock-directory.ts";

/** The sources of the web server's build, relative to the checkout. */
const sources = [
  "package-lock.json",
  "remix.config.js",
  "vite.config.ts",
  "tsconfig.json",
  "remix-app/**/*",
  "supabase/functions/_shared/**/*",
  "docs/**/*.{md,json}",
  "!**/*.test.{ts,tsx}",
];
const outputs = ["build/client", "build/server/index.js"];

/** Returns one hash of all build sources. */
export function hashSources(root: string): Promise<string> {
  return hashFiles(root, sources);
}

/**
 * Builds the web server if its build is missing or older than its sources. Concurrent starts build only once.
 * @returns whether it built
 * @throws StackError with the end of the build's output if it fails
 */
export async function ensureBuild(options: { root: string; logFile: string; adopt: Adopt }): Promise<boolean> {
  const { root, logFile, adopt } = options;
  const directory = path.join(root, "build");
  const stamp = path.join(directory, ".sources");
  const fresh = async () =>
    outputs.every((output) => existsSync(path.join(root, output))) &&
    existsSync(stamp) &&
    readFileSync(stamp, "utf8") === (await hashSources(root));
  if (await fresh()) return false;

  await mkdir(directory, { recursive: true });
  const unlock = await lockDirectory(directory);
  try {
    if (await fresh()) return false;
    rmSync(stamp, { force: true });
    const hash = await hashSources(root);
    await runBuild({ root, logFile, adopt });
    writeFileSync(stamp, hash);
    return true;
  } finally {
    unlock();
  }
}

function runBuild({ root, logFile, adopt }: { root: string; logFile: string; adopt: Adopt }): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["node_modules/@remix-run/dev/dist/cli.js", "vite:build"], {
      cwd: root,
      env: { ...process.env, NODE_ENV: "production" },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    adopt("build", child);
    const log = createWriteStream(logFile, { mode: 0o600 });
    let tail = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        log.write(chunk);
        tail = (tail + chunk).slice(-3_000);
      });
    }
    child.once("error", reject);
    child.once("close", (code) => {
      log.end();
      if (code === 0) resolve();
      else reject(new StackError(`The web server's build failed. Its whole output: ${logFile}\n${tail.trim()}`));
    });
  });
}
