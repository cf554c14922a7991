import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import pg from "pg";
import { sdkPackages } from "../clients/sdks/packages.ts";
import type { Stack } from "../test/stack.ts";
import type { Block } from "./blocks.ts";

/** Lets a block import the SDKs of `scripts/clients/sdks/`, which are not in `node_modules`. */
const resolveSdks = path.resolve("scripts/clients/sdks/resolve.ts");
/** Some blocks run half a dozen npm commands. */
const limitMs = 150_000;
/** Shorter than Postgres's deadlock_timeout (1 s), so that a deadlock never aborts another transaction. */
const lockLimitMs = 200;
const lockAttempts = 20;

/**
 * A directory in which blocks run. It looks like the checkout, so that imports and npm scripts work. Its own `.local/`
 * describes the stack, so that nothing is written to the developer's `.local/`.
 */
export type Workplace = { directory: string; stack: Stack; remove: () => Promise<void> };

const checkout = [
  "package.json",
  "package-lock.json",
  "node_modules",
  "remix-app",
  "supabase",
  "packages",
  "scripts",
  "docs",
  "build",
];

/** Creates a workplace that all blocks of one document share, so that a block can use the files of an earlier block. */
export async function openWorkplace(stack: Stack): Promise<Workplace> {
  await mkdir(".local", { recursive: true });
  const directory = await mkdtemp(path.resolve(".local/docs-"));
  await mkdir(path.join(directory, ".local"));
  for (const name of checkout) await symlink(path.resolve(name), path.join(directory, name));
  await writeFile(path.join(directory, ".local/stack.json"), JSON.stringify(stack), { mode: 0o600 });
  // By default curl exits with 0 on an error response.
  await writeFile(path.join(directory, ".curlrc"), "silent\nshow-error\nfail-with-body\n");
  return { directory, stack, remove: () => rm(directory, { recursive: true, force: true }) };
}

/** Runs a block. @returns the error message, if the block fails */
export async function runBlock(block: Block, workplace: Workplace): Promise<string | undefined> {
  const { language, line, text } = block;
  if (language === "sql") return runSql(text, workplace.stack.supabase.dbUrl);
  if (language === "sh") return runProcess("bash", ["-euo", "pipefail", "-c", text], workplace);
  if (language === "python") return runProcess("python3", ["-c", runPython, text], workplace);
  const file = path.join(workplace.directory, `line-${line}.${language === "js" ? "mjs" : "ts"}`);
  await writeFile(file, text);
  const usesSdk = Object.keys(sdkPackages).some((name) => text.includes(`from "${name}"`));
  return runProcess(process.execPath, [...(usesSdk ? ["--import", resolveSdks] : []), file], workplace);
}

/** Parses the block in its argument, and runs it if everything that it imports is installed. */
const runPython = `
import ast, importlib.util, sys
block = ast.parse(sys.argv[1])
names = [alias.name for node in block.body if isinstance(node, ast.Import) for alias in node.names]
names += [node.module for node in block.body if isinstance(node, ast.ImportFrom)]

def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False

if all(is_installed(name) for name in names):
    exec(compile(block, "block", "exec"), {})
`;

function runProcess(command: string, args: string[], { directory, stack }: Workplace): Promise<string | undefined> {
  const env: NodeJS.ProcessEnv = {
    NODE_ENV: "test",
    PATH: [path.resolve("node_modules/.bin"), process.env.PATH].join(path.delimiter),
    HOME: process.env.HOME,
    CURL_HOME: directory,
    GATEHOUSE_STACK: path.join(directory, ".local/stack.json"),
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    AI: stack.ai,
    KEY: stack.aiKey,
  };
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: directory, env, stdio: ["ignore", "pipe", "pipe"], timeout: limitMs });
    let said = "";
    const listen = (chunk: Buffer) => {
      said = (said + chunk).slice(-2_000);
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    // If Python is missing, Python blocks are skipped.
    child.once("error", (error) => resolve(command === "python3" ? undefined : error.message));
    child.once("close", (code, signal) => resolve(code === 0 ? undefined : `ended with ${code ?? signal}:\n${said}`));
  });
}

/**
 * Runs SQL as `postgres` on an empty catalogue (no plans, no models), in a transaction that is rolled back. Waits for
 * locks only briefly and retries, since others may be using the catalogue.
 */
async function runSql(text: string, connectionString: string): Promise<string | undefined> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await client.query(`begin; set local lock_timeout = '${lockLimitMs}ms'; ${emptyCatalogue}`);
        await client.query(text);
        await client.query("set constraints all immediate");
        return undefined;
      } catch (error) {
        const waited = error instanceof pg.DatabaseError && error.code === "55P03";
        if (!waited || attempt === lockAttempts) return error instanceof Error ? error.message : String(error);
      } finally {
        await client.query("rollback");
      }
    }
  } finally {
    await client.end();
  }
}

/** Empties the catalogue. Runs and workspaces have no foreign keys to models and plans, so they can stay. */
const emptyCatalogue = `
  delete from ai.model_grants;
  delete from ai.model_prices;
  delete from ai.model_routes;
  delete from ai.models;
  delete from ai.plans;
`;
