import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { initialiseCluster, superuser } from "@gatehousehq/local-stack/services/postgres/cluster";
import { placeCluster } from "@gatehousehq/local-stack/services/postgres/placement";
import { startTemporaryServer } from "@gatehousehq/local-stack/services/postgres/temporary-server";
import pg from "pg";
import { composeFolder } from "./compose-file.ts";

const root = path.resolve(composeFolder, "../..");

/** Starts an empty Postgres, and runs the files that the container's entrypoint runs. */
export async function startDatabase(
  folder: string,
  { environment, port }: { environment: Record<string, string>; port: number },
) {
  const passwords = {
    [superuser]: environment.POSTGRES_PASSWORD ?? "",
    postgres: environment.DB_OWNER_PASSWORD ?? "",
    authenticator: environment.DB_API_PASSWORD ?? "",
    supabase_auth_admin: environment.DB_AUTH_PASSWORD ?? "",
  };
  const placement = await placeCluster(path.join(folder, "postgres"));
  await initialiseCluster({ dataDir: placement.dataDir, passwords, placement });
  const server = await startTemporaryServer({ placement, port, passwords });
  const sql = (file: string) => readFileSync(path.resolve(composeFolder, file), "utf8");
  await withDatabase(server.url(superuser), async (client) => {
    await client.query(sql("../../packages/local-stack/services/postgres/bootstrap.sql"));
    await client.query(runPsqlVariables(sql("roles.sql"), environment));
  });
  return server;
}

/** Applies the migrations with Supabase's command. */
export async function pushMigrations(dbUrl: string): Promise<void> {
  const command = path.join(root, "node_modules/.bin/supabase");
  await promisify(execFile)(command, ["db", "push", "--yes", "--db-url", dbUrl], { cwd: root });
}

/** Does what psql does for `\getenv name VARIABLE` and `:'name'`. */
function runPsqlVariables(sql: string, environment: Record<string, string>): string {
  const variables = new Map(
    [...sql.matchAll(/^\\getenv (\w+) (\w+)$/gm)].map(([, name = "", from = ""]) => [name, from]),
  );
  return sql
    .replaceAll(/^\\getenv .*$/gm, "")
    .replaceAll(/:'(\w+)'/g, (_, name: string) => pg.escapeLiteral(environment[variables.get(name) ?? ""] ?? ""));
}
