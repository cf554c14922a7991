import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { superuser } from "@gatehousehq/local-stack/services/postgres/cluster";
import { databaseUrl } from "../start/addresses.ts";
import { loadSecrets } from "../start/secrets.ts";
import { readStackFile } from "./stack.ts";

const startTimeoutMs = 120_000;
const stopTimeoutMs = 20_000;
/** bcrypt's lowest cost. At the usual cost, hashing takes half of the tests' processor time. */
const cheapestHash = "4";
/**
 * The minimum time between emails at the backend. It is shorter than our pages' minimum, so that only the pages'
 * minimum affects tests.
 */
const shortMailPause = "1s";

export type StartedStack = { file: string; stop: () => Promise<void> };

/**
 * Starts a whole stack with its own ports, its own data below `.local/` and the models that fail on purpose, and waits
 * until it is ready.
 * @param settings overrides for the stack, such as LOCAL_BOT_CHALLENGE; by default, passwords are hashed at bcrypt's
 * lowest cost, and the identity backend may email an account every second
 * @param options.without services that are left out
 * @param options.signal aborts a start in progress
 * @param options.dataDir a directory for the stack's data, which is kept; by default a new one below `.local/`, removed
 * at the end
 * @param options.root the folder of another commit, whose own `npm start` runs; by default this checkout, with the models
 * that fail on purpose
 * @param options.durable whether a commit waits for the disk, as it does outside of tests
 * @returns the path of the stack's stack.json, and a function that stops the stack and removes its data
 * @throws Error with the runner's last output if the stack does not become ready
 */
export async function startStack(
  settings: Record<string, string> = {},
  options: {
    without?: string[];
    signal?: AbortSignal;
    durable?: boolean;
    dataDir?: string | undefined;
    root?: string;
  } = {},
): Promise<StartedStack> {
  const { without = [], signal, durable = false, root = "." } = options;
  await mkdir(path.join(root, ".local"), { recursive: true });
  const dataDir = options.dataDir ?? (await mkdtemp(path.resolve(root, ".local/test-")));
  const file = path.join(dataDir, "stack.json");
  const child = spawn(
    process.execPath,
    [
      await readStartProgram(root),
      ...["--json", "--embedded", "--ports", "auto", "--data-dir", dataDir],
      ...(options.root === undefined ? ["--test-models"] : []),
      ...without.flatMap((name) => ["--without", name]),
    ],
    {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        GOTRUE_PASSWORD_HASH_COST: cheapestHash,
        GOTRUE_SMTP_MAX_FREQUENCY: shortMailPause,
        ...settings,
        GATEHOUSE_STACK: "",
      },
    },
  );
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = (said + chunk).slice(-4_000);
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const ready = new Promise<void>((resolve, reject) => {
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
      try {
        JSON.parse(output);
        resolve();
      } catch {
        // The stack's JSON output is still incomplete.
      }
    });
    child.once("exit", (code) => reject(new Error(`The stack ended with code ${code} before it was ready:\n${said}`)));
    setTimeout(
      () => reject(new Error(`The stack was not ready after ${startTimeoutMs / 1000} s:\n${said}`)),
      startTimeoutMs,
    ).unref();
  });
  const stop = async () => {
    child.kill("SIGTERM");
    const forced = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs);
    if (child.exitCode === null && child.signalCode === null) await exited;
    clearTimeout(forced);
    if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
  };
  signal?.addEventListener("abort", () => child.kill("SIGTERM"), { once: true });
  try {
    await ready;
    if (!durable) await trustTheMachine(file);
  } catch (error) {
    await stop();
    throw error;
  }
  return { file, stop };
}

/** Returns the program that `npm start` runs in a checkout. */
export async function readStartProgram(root: string): Promise<string> {
  const { scripts } = JSON.parse(await readFile(path.join(root, "package.json"), "utf8")) as {
    scripts: { start: string };
  };
  return scripts.start.replace(/^node /, "");
}

/** Lets commits return without waiting for the disk, since no test cuts the machine's power. */
async function trustTheMachine(stackFile: string): Promise<void> {
  await withDatabase(await superuserUrl(stackFile), async (client) => {
    await client.query("alter system set fsync to off");
    await client.query("select pg_reload_conf()");
  });
}

/**
 * Returns the database URL of a stack's superuser, which hosted Supabase does not give out.
 * @param stackFile the path of its stack.json
 */
export async function superuserUrl(stackFile: string): Promise<string> {
  const secrets = await loadSecrets(path.dirname(stackFile), { clusterExists: true });
  const { port } = new URL(readStackFile(stackFile).supabase.dbUrl);
  return databaseUrl(superuser, secrets, Number(port));
}
