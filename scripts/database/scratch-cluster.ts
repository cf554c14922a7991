import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { freePort } from "@gatehousehq/local-stack/ports";
import { bootstrapCluster, initialiseCluster, superuser } from "@gatehousehq/local-stack/services/postgres/cluster";
import { placeCluster, reachableDataDir } from "@gatehousehq/local-stack/services/postgres/placement";
import { startTemporaryServer } from "@gatehousehq/local-stack/services/postgres/temporary-server";
import { emptyDatabase, prepareSnapshot } from "./snapshot.ts";

const root = path.resolve(import.meta.dirname, "../..");

export type ScratchCluster = {
  /**
   * Creates a database like that of a new Supabase project, or with all of this checkout's migrations. Returns a
   * connection URL for the role that runs migrations.
   */
  createDatabase: (options?: { migrated: boolean }) => Promise<string>;
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
  const programs = process.env.POSTGRES_BIN || undefined;
  const placement = await placeCluster(path.join(folder, "data"), programs);
  const { dataDir } = placement;
  const password = randomBytes(12).toString("hex");
  const passwords = {
    postgres: password,
    authenticator: password,
    supabase_auth_admin: password,
    [superuser]: password,
  };
  const remove = async () => {
    await rm(folder, { recursive: true, force: true });
    if (dataDir === reachableDataDir(path.join(folder, "data"))) {
      await rm(path.dirname(dataDir), { recursive: true, force: true });
    }
  };
  try {
    const snapshot = () => prepareSnapshot(root, { folder: programs });
    await initialiseCluster({ dataDir, passwords, placement, snapshot });
    const port = await freePort();
    const server = await startTemporaryServer({ placement, port, passwords });
    const stop = () => server.stop().then(remove);
    await bootstrapCluster({ port, passwords }).catch(async (error: unknown) => {
      await server.stop();
      throw error;
    });
    let databases = 0;
    return {
      stop,
      async createDatabase({ migrated } = { migrated: false }) {
        databases += 1;
        const name = `scratch_${databases}`;
        await withDatabase(server.url(superuser, "template1"), (client) =>
          client.query(`create database ${name} template ${migrated ? "postgres" : emptyDatabase} owner postgres`),
        );
        return server.url("postgres", name);
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
