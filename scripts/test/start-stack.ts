import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import { withDatabase } from "../local-stack/database.ts";
import { superuserUrl } from "./superuser.ts";

const startTimeoutMs = 120_000;
const stopTimeoutMs = 20_000;
/** bcrypt's least cost: at the usual one, hashes are half of what the tests' processor time goes to. */
const cheapestHash = "4";
/** The backend's own pause between mails, so short that only our pages' pause is left to be tested. */
const shortMailPause = "1s";

export type StartedStack = { file: string; stop: () => Promise<void> };

/**
 * Starts a whole stack with its own ports, its own data below `.local/` and the models that fail on purpose, and waits
 * until it is ready.
 * @param settings of the stack that tests may choose, such as LOCAL_BOT_CHALLENGE; where they do not say otherwise,
 *   passwords are hashed at bcrypt's least cost, and the identity backend mails an account every second
 * @param options.without services that are left out
 * @param options.signal ends a start that is under way
 * @param options.dataDir a directory for its data, which stays; otherwise a new one below `.local/`, removed at the end
 * @param options.durable whether a commit waits for the disk, as it does for everybody but tests
 * @returns the path of its stack.json, and how to end it and remove its data
 * @throws Error with the runner's last words when it does not become ready
 */
export async function startStack(
  settings: Record<string, string> = {},
  options: { without?: string[]; signal?: AbortSignal; durable?: boolean; dataDir?: string | undefined } = {},
): Promise<StartedStack> {
  const { without = [], signal, durable = false } = options;
  await mkdir(".local", { recursive: true });
  const dataDir = options.dataDir ?? (await mkdtemp(path.resolve(".local/test-")));
  const file = path.join(dataDir, "stack.json");
  const child = spawn(
    process.execPath,
    [
      "scripts/local-stack/main.ts",
      ...["--json", "--embedded", "--ports", "auto", "--test-models", "--data-dir", dataDir],
      ...without.flatMap((name) => ["--without", name]),
    ],
    {
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
        // Not whole yet.
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

/** Lets a commit be one without waiting for the disk: no test pulls the machine's plug. */
async function trustTheMachine(stackFile: string): Promise<void> {
  await withDatabase(await superuserUrl(stackFile), async (client) => {
    await client.query("alter system set fsync to off");
    await client.query("select pg_reload_conf()");
  });
}
