import { spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { freePort } from "@gatehousehq/local-stack/ports";
import type { Adopt } from "@gatehousehq/local-stack/runner/service";
import { openDatabase } from "@gatehousehq/local-stack/services/identity/db";
import { applySchema } from "@gatehousehq/local-stack/services/identity/schema";
import { bootstrapCluster, initialiseCluster, superuser } from "@gatehousehq/local-stack/services/postgres/cluster";
import { type Placement, placeCluster } from "@gatehousehq/local-stack/services/postgres/placement";
import { startTemporaryServer } from "@gatehousehq/local-stack/services/postgres/temporary-server";
import { hashFiles } from "../hash-files.ts";
import { lockDirectory } from "../lock-directory.ts";
import { applyMigrations } from "./migrations.ts";

/** The files that decide what a snapshot contains, relative to the checkout. */
const sources = [
  "supabase/migrations/*.sql",
  "scripts/database/{snapshot,migrations,statements}.ts",
  "packages/local-stack/services/postgres/{bootstrap.sql,cluster.ts}",
  "packages/local-stack/services/identity/{schema.ts,schema/*.sql}",
];
/** How many snapshots stay, the most recently used ones. */
const keptSnapshots = 3;

/** The database of a snapshot in which no migration has been applied. Database `postgres` has them all. */
export const emptyDatabase = "before_migrations";

/**
 * Returns the data directory of a stopped cluster to copy: a new Supabase project with the identity server's schema and
 * this checkout's migrations. Prepares it if the checkout has none for its present files. Concurrent callers prepare only
 * one.
 * @param options.folder the folder of Postgres's programs to use instead of those from npm
 * @throws StackError if Postgres does not start or a migration fails
 */
export async function prepareSnapshot(
  root: string,
  { folder, adopt }: { folder?: string | undefined; adopt?: Adopt | undefined } = {},
): Promise<string> {
  mkdirSync(path.join(root, ".local"), { recursive: true });
  const placement = await placeCluster(path.join(root, ".local/snapshots"), folder);
  mkdirSync(placement.dataDir, { recursive: true, mode: 0o700 });
  const snapshot = path.join(placement.dataDir, await identify(root, placement));
  const unlock = await lockDirectory(placement.dataDir);
  try {
    if (!existsSync(snapshot)) {
      await build(snapshot, { root, placement, adopt });
      prune(placement.dataDir);
    }
    const now = new Date();
    utimesSync(snapshot, now, now);
  } finally {
    unlock();
  }
  return snapshot;
}

async function identify(root: string, { postgres }: Placement): Promise<string> {
  const { stdout } = spawnSync(postgres, ["--version"], { encoding: "utf8" });
  const files = await hashFiles(root, sources);
  return createHash("sha256").update(`${stdout}\0${files}`).digest("hex").slice(0, 32);
}

type BuildOptions = { root: string; placement: Placement; adopt: Adopt | undefined };

async function build(snapshot: string, { root, placement, adopt }: BuildOptions): Promise<void> {
  const draft = { ...placement, dataDir: `${snapshot}.draft` };
  rmSync(draft.dataDir, { recursive: true, force: true });
  const password = randomBytes(24).toString("hex");
  const passwords = {
    postgres: password,
    authenticator: password,
    supabase_auth_admin: password,
    [superuser]: password,
  };
  try {
    await initialiseCluster({ dataDir: draft.dataDir, passwords, placement: draft, ...(adopt && { adopt }) });
    const port = await freePort();
    const server = await startTemporaryServer({ placement: draft, port, passwords, adopt });
    try {
      await bootstrapCluster({ port, passwords });
      const identity = openDatabase(server.url("supabase_auth_admin"), () => undefined);
      await applySchema(identity).finally(() => identity.end());
      await withDatabase(server.url(superuser, "template1"), (client) =>
        client.query(`create database ${emptyDatabase} template postgres owner postgres`),
      );
      await applyMigrations({ dbUrl: server.url("postgres"), directory: path.join(root, "supabase/migrations") });
    } finally {
      await server.stop();
    }
    renameSync(draft.dataDir, snapshot);
  } catch (error) {
    rmSync(draft.dataDir, { recursive: true, force: true });
    throw error;
  }
}

/** Removes all but the most recently used snapshots, and the drafts of callers that were killed. */
function prune(cache: string): void {
  const entries = readdirSync(cache)
    .filter((name) => !name.startsWith("."))
    .map((name) => path.join(cache, name))
    .map((full) => ({ full, usedAt: /\.draft/.test(full) ? 0 : statSync(full).mtimeMs }))
    .sort((a, b) => b.usedAt - a.usedAt);
  for (const { full } of entries.filter(({ usedAt }, at) => usedAt === 0 || at >= keptSnapshots)) {
    rmSync(full, { recursive: true, force: true });
  }
}
