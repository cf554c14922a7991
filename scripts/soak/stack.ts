import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import { type PatroniCluster, startPatroniCluster } from "@gatehousehq/local-stack/services/patroni/cluster";
import type { PatroniPrograms } from "@gatehousehq/local-stack/services/patroni/programs";
import { loadSecrets } from "../start/secrets.ts";
import { readStackFile, type Stack } from "../test/stack.ts";
import { readStartProgram } from "../test/start-stack.ts";
import { createDelayingProxy, type DelayingProxy } from "./faults/proxy.ts";

const startTimeoutMs = 120_000;
const stopTimeoutMs = 20_000;
/**
 * Lifetime of access tokens. A session in use is refreshed every 15 s, since tokens are refreshed 90 s before they
 * expire.
 */
const accessTokenSeconds = 105;
/** A provider that hangs holds a call for as long. */
export const longestCallSeconds = 140;

export interface SoakStack {
  file: string;
  dataDir: string;
  /** Returns the stack's current description. A restarted service has a new pid. */
  read(): Stack;
  /** The proxy between the services and Postgres. */
  proxy: DelayingProxy;
  /** The two Postgres that replace the stack's own, if there are two. */
  cluster: PatroniCluster | undefined;
  /** Returns whether the stack's runner is still running. */
  isUp(): boolean;
  stop(): Promise<void>;
  kill(): void;
  remove(): Promise<void>;
}

/**
 * Starts a stack on free ports with empty data below `.local/`, built for production, with a proxy in front of
 * Postgres.
 * @param options.root the checkout whose code the stack runs; defaults to this one
 * @param options.scale runs several servers behind a balancer and PgBouncer
 * @param options.patroni runs a primary and a standby behind HAProxy with these programs
 * @param options.dataDir continues with the data of an earlier stack
 * @param options.portOffset takes the usual ports plus this number, so that a later stack can have the same ones
 * @param options.without services that are left out
 * @throws Error with the end of the runner's output if the stack does not become ready
 */
export async function startSoakStack({
  root = ".",
  scale = false,
  patroni,
  dataDir: given,
  portOffset,
  without = [],
}: {
  root?: string;
  scale?: boolean;
  patroni?: PatroniPrograms | undefined;
  dataDir?: string;
  portOffset?: number;
  without?: readonly string[];
} = {}): Promise<SoakStack> {
  await mkdir(".local", { recursive: true });
  const dataDir = given ?? (await mkdtemp(path.resolve(".local/soak-")));
  const proxy = await createDelayingProxy();
  const cluster = patroni && (await startCluster(patroni, dataDir));
  if (cluster) proxy.passTo(cluster.port);
  const child = spawn(
    process.execPath,
    [
      await readStartProgram(root),
      ...["--json", "--embedded", "--test-models", "--data-dir", dataDir],
      ...(portOffset === undefined ? ["--ports", "auto"] : ["--port-offset", String(portOffset)]),
      ...[...without, ...(cluster ? ["postgres"] : [])].flatMap((name) => ["--without", name]),
      ...["--database-via", String(proxy.port)],
      ...(scale ? ["--scale"] : []),
    ],
    {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      // Keeps Ctrl-C from stopping the stack. Ctrl-C ends only the traffic, and the audit still needs the stack.
      detached: true,
      env: {
        ...process.env,
        GATEHOUSE_STACK: "",
        GOTRUE_JWT_EXP: String(accessTokenSeconds),
        AI_TOTAL_LIMIT_SECONDS: String(longestCallSeconds),
        // With this setting, the stack ends when this process ends for any reason.
        npm_lifecycle_event: "soak",
      },
    },
  );
  const log = createWriteStream(path.join(dataDir, "runner.log"));
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said = (said + chunk).slice(-4_000);
    log.write(chunk);
    // If a port is taken, the stack starts again, and Postgres may then listen on another port.
    const port = [...said.matchAll(/postgres +│ up on (\d+)/g)].at(-1)?.[1];
    if (port) proxy.passTo(Number(port));
  });
  const file = path.join(dataDir, "stack.json");
  const isUp = () => child.exitCode === null && child.signalCode === null;
  const remove = async () => {
    await rm(dataDir, { recursive: true, force: true });
    await cluster?.remove();
  };
  const stop = async () => {
    await end(child);
    await proxy.close();
    await cluster?.stop();
  };
  try {
    await untilReady(child, () => said);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    file,
    dataDir,
    proxy,
    cluster,
    isUp,
    stop,
    remove,
    read: () => readStackFile(file),
    kill: () => child.kill("SIGKILL"),
  };
}

async function startCluster(programs: PatroniPrograms, dataDir: string): Promise<PatroniCluster> {
  const { passwords } = await loadSecrets(dataDir, { clusterExists: false });
  return startPatroniCluster({ programs, password: passwords.supabase_admin, logDir: path.join(dataDir, "patroni") });
}

async function untilReady(child: ChildProcess, said: () => string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let output = "";
    const late = setTimeout(() => {
      reject(new Error(`The stack was not ready after ${startTimeoutMs / 1000} s:\n${said()}`));
    }, startTimeoutMs);
    child.stdout?.on("data", (chunk) => {
      output += chunk;
      if (!output.endsWith("}\n")) return;
      clearTimeout(late);
      resolve();
    });
    child.once("exit", (code) => {
      clearTimeout(late);
      reject(new Error(`The stack ended with code ${code} before it was ready:\n${said()}`));
    });
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  child.kill("SIGTERM");
  const forced = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs);
  await exited;
  clearTimeout(forced);
}
