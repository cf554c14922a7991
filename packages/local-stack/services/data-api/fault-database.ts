import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { freePort } from "../../ports.ts";
import { bootstrapCluster, type ClusterPasswords, clusterCommand, initialiseCluster } from "../postgres/cluster.ts";
import { placeCluster } from "../postgres/placement.ts";

const password = "fault";
const passwords: ClusterPasswords = {
  postgres: password,
  authenticator: password,
  supabase_auth_admin: password,
  supabase_admin: password,
};
const startLimitMs = 20_000;

export type FaultDatabase = {
  url: (role: string) => string;
  query: (text: string, role?: string) => Promise<Record<string, unknown>[]>;
  applySchema: () => Promise<void>;
  start: () => Promise<void>;
  stop: (signal?: NodeJS.Signals) => Promise<void>;
  remove: () => Promise<void>;
};

/**
 * Creates a Postgres server for one test, with the same version as hosted Supabase. The test can stop, kill and restart
 * the server.
 */
export async function createFaultDatabase(): Promise<FaultDatabase> {
  const folder = await mkdtemp(path.join(tmpdir(), "data-api-"));
  const dataDir = path.join(folder, "data");
  const placement = await placeCluster(dataDir, process.env.POSTGRES_BIN);
  const port = await freePort();
  let server: ChildProcess | undefined;
  const url = (role: string) => `postgres://${role}:${password}@127.0.0.1:${port}/postgres`;

  async function query(text: string, role = "postgres"): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: url(role) });
    client.on("error", () => undefined);
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }

  async function start(): Promise<void> {
    const { command, args, ...user } = await clusterCommand({ dataDir, port, placement });
    server = spawn(command, args, { ...user, cwd: "/", stdio: "ignore" });
    const deadline = Date.now() + startLimitMs;
    while (!(await query("select 1", "supabase_admin").catch(() => undefined))) {
      if (Date.now() > deadline) throw new Error("Postgres did not start");
      await sleep(50);
    }
  }

  async function stop(signal: NodeJS.Signals = "SIGINT"): Promise<void> {
    if (!server) return;
    const exited = once(server, "exit");
    server.kill(signal);
    await exited;
    server = undefined;
  }

  await initialiseCluster({ dataDir, passwords, placement });
  await start();
  await bootstrapCluster({ port, passwords });
  return {
    url,
    query,
    start,
    stop,
    async applySchema() {
      await query(await readFile(new URL("./fault-schema.sql", import.meta.url), "utf8"));
    },
    async remove() {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
