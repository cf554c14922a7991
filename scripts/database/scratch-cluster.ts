import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { withDatabase } from "../local-stack/database.ts";
import { messageOf, StackError } from "../local-stack/errors.ts";
import { freePort } from "../local-stack/ports.ts";
import { openDatabase } from "../local-stack/services/identity/db.ts";
import { applySchema } from "../local-stack/services/identity/schema.ts";
import {
  bootstrapCluster,
  clusterCommand,
  initialiseCluster,
  superuser,
} from "../local-stack/services/postgres/cluster.ts";
import { placeCluster, reachableDataDir } from "../local-stack/services/postgres/placement.ts";

const startLimitMs = 30_000;

export type ScratchCluster = {
  /**
   * Creates a database like that of a new Supabase project. Returns a connection URL for the role that runs migrations.
   */
  createDatabase: () => Promise<string>;
  stop: () => Promise<void>;
};

/**
 * Starts a Postgres in a temporary directory, with Supabase's roles and the identity service's schema `auth`.
 * @throws StackError if it does not start
 */
export async function startScratchCluster(): Promise<ScratchCluster> {
  const folder = await mkdtemp(path.join(tmpdir(), "gatehouse-scratch-"));
  // When we are root, Postgres runs as another account, which must be able to enter the folder.
  await chmod(folder, 0o755);
  const placement = await placeCluster(path.join(folder, "data"), process.env.POSTGRES_BIN || undefined);
  const { dataDir } = placement;
  const password = randomBytes(12).toString("hex");
  const passwords = {
    postgres: password,
    authenticator: password,
    supabase_auth_admin: password,
    [superuser]: password,
  };
  const port = await freePort();
  const url = (role: string, database = "postgres") => `postgres://${role}:${password}@127.0.0.1:${port}/${database}`;

  const remove = async () => {
    await rm(folder, { recursive: true, force: true });
    if (dataDir === reachableDataDir(path.join(folder, "data"))) {
      await rm(path.dirname(dataDir), { recursive: true, force: true });
    }
  };
  try {
    await initialiseCluster({ dataDir, passwords, placement });
  } catch (error) {
    await remove();
    throw error;
  }
  const { command, args, uid, gid } = await clusterCommand({ dataDir, port, placement });
  // The data is temporary, so it need not survive a crash.
  const unsafe = ["fsync", "synchronous_commit", "full_page_writes"].flatMap((name) => ["-c", `${name}=off`]);
  const server = spawn(command, [...args, ...unsafe], { uid, gid, cwd: "/", stdio: "ignore" });
  const exited = new Promise<void>((resolve) => {
    server.once("exit", () => resolve());
    server.once("error", () => resolve());
  });
  const stop = async () => {
    server.kill("SIGINT");
    await exited;
    await remove();
  };

  try {
    await untilItAnswers(url(superuser));
    await bootstrapCluster({ port, passwords });
    const identity = openDatabase(url("supabase_auth_admin"), () => undefined);
    await applySchema(identity).finally(() => identity.end());
  } catch (error) {
    await stop();
    throw error;
  }
  let databases = 0;
  return {
    stop,
    async createDatabase() {
      databases += 1;
      const name = `scratch_${databases}`;
      await withDatabase(url(superuser, "template1"), (client) =>
        client.query(`create database ${name} template postgres owner postgres`),
      );
      return url("postgres", name);
    },
  };
}

async function untilItAnswers(connectionString: string): Promise<void> {
  const deadline = performance.now() + startLimitMs;
  for (;;) {
    try {
      await withDatabase(connectionString, (client) => client.query("select 1"));
      return;
    } catch (error) {
      if (performance.now() > deadline) throw new StackError(`The scratch Postgres did not start: ${messageOf(error)}`);
      await sleep(50);
    }
  }
}
