import { type ChildProcess, spawn } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { cp, readFile } from "node:fs/promises";
import path from "node:path";
import pg from "pg";
import { withDatabase } from "../../database.ts";
import { StackError } from "../../errors.ts";
import type { Adopt } from "../../runner/service.ts";
import { majorVersion, type Placement, placeCluster } from "./placement.ts";

/** The roles that can log in, for which the stack generates passwords. */
const loginRoles = ["postgres", "authenticator", "supabase_auth_admin"] as const;
export const superuser = "supabase_admin";

export type ClusterPasswords = Record<(typeof loginRoles)[number] | typeof superuser, string>;
export type ClusterOptions = { dataDir: string; port: number; passwords: ClusterPasswords; placement?: Placement };
type InitialiseOptions = Omit<ClusterOptions, "port"> & {
  adopt?: Adopt;
  /** Returns the data directory of a stopped cluster to copy. Without it, the new cluster is empty. */
  snapshot?: (() => Promise<string>) | undefined;
};

/**
 * Creates the cluster's files in `dataDir` unless they exist. They are created in a separate directory and then moved,
 * so that an interrupted start leaves nothing that looks complete.
 * @returns whether it created them
 * @throws StackError if the directory contains something else, or only part of a cluster
 */
export async function initialiseCluster(options: InitialiseOptions): Promise<boolean> {
  const placement = options.placement ?? (await placeCluster(options.dataDir));
  const { dataDir, user } = placement;
  const draft = `${dataDir}.new`;
  rmSync(draft, { recursive: true, force: true });
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0) {
    refuseDamaged(dataDir);
    return false;
  }
  if (options.snapshot) {
    await copyCluster(await options.snapshot(), draft, options.adopt);
    await setSuperuserPassword(draft, { ...options, placement });
  } else {
    mkdirSync(draft, { recursive: true, mode: 0o700 });
    if (user) chownSync(draft, user.uid, user.gid);
    await createEmpty(draft, { ...options, placement });
  }
  rmSync(dataDir, { recursive: true, force: true });
  renameSync(draft, dataDir);
  return true;
}

/** Copies a stopped cluster. `cp` preserves the owner, and is several times faster than Node's function. */
async function copyCluster(from: string, to: string, adopt: Adopt | undefined): Promise<void> {
  if (process.platform === "win32") return cp(from, to, { recursive: true });
  const child = spawnProgram("cp", ["-Rp", from, to], undefined);
  adopt?.("copy", child);
  await outputOf(child, `${from} could not be copied`);
}

/** How a new cluster is created. Data checksums come on top. */
export const initdbOptions = {
  auth: "scram-sha-256",
  encoding: "UTF8",
  locale: "C",
  "locale-provider": "builtin",
  "builtin-locale": "C.UTF-8",
} as const;

/** The server's settings that do not depend on where it runs. */
export const serverSettings = {
  // Tests with many concurrent callers take 60 connections each, and two test files run concurrently.
  max_connections: 200,
  shared_buffers: "128MB",
  timezone: "UTC",
  log_timezone: "UTC",
  shared_preload_libraries: "pg_stat_statements",
} as const;

type CreateOptions = Pick<InitialiseOptions, "passwords" | "adopt"> & { placement: Placement };

/** Sets the superuser's password before the server starts, so that the snapshot's password never works. */
async function setSuperuserPassword(draft: string, { passwords, placement, adopt }: CreateOptions): Promise<void> {
  const args = ["--single", "-D", draft, "-c", "fsync=off", "-c", "log_checkpoints=off", "postgres"];
  const child = spawnProgram(placement.postgres, args, placement.user);
  adopt?.("postgres-password", child);
  child.stdin?.end(`alter role ${superuser} password ${pg.escapeLiteral(passwords[superuser])}\n`);
  const output = await outputOf(child, "Postgres could not open a copy of its prepared data directory");
  if (/^(ERROR|FATAL|PANIC):/m.test(output)) throw new StackError(`The superuser's password was not set:\n${output}`);
}

async function createEmpty(draft: string, { passwords, placement, adopt }: CreateOptions): Promise<void> {
  const { initdb, dataDir, user } = placement;
  const passwordFile = `${dataDir}.password`;
  writeFileSync(passwordFile, `${passwords[superuser]}\n`, { mode: 0o600 });
  if (user) chownSync(passwordFile, user.uid, user.gid);
  const args = [
    `--pgdata=${draft}`,
    `--username=${superuser}`,
    `--pwfile=${passwordFile}`,
    ...Object.entries(initdbOptions).map(([name, value]) => `--${name}=${value}`),
    "--data-checksums",
  ];
  try {
    const child = spawnProgram(initdb, args, user);
    adopt?.("initdb", child);
    await outputOf(child, "Postgres could not make its data directory");
  } finally {
    rmSync(passwordFile, { force: true });
  }
}

function refuseDamaged(dataDir: string): void {
  const resetHint = "Put it back from a copy, or start afresh: npm run reset";
  const versionFile = path.join(dataDir, "PG_VERSION");
  if (!existsSync(versionFile) || !existsSync(path.join(dataDir, "global/pg_control"))) {
    throw new StackError(`${dataDir} is not a whole Postgres data directory.\n${resetHint}`);
  }
  const version = readFileSync(versionFile, "utf8").trim();
  if (version !== majorVersion) {
    throw new StackError(`${dataDir} was made by Postgres ${version || "?"}, this is ${majorVersion}.\n${resetHint}`);
  }
}

function spawnProgram(program: string, args: string[], user: Placement["user"]): ChildProcess {
  return spawn(program, args, { ...user, cwd: "/", detached: true, env: { ...process.env, LC_ALL: "C" } });
}

/** Waits until a program ends. @returns what it printed @throws StackError with that text if it failed */
function outputOf(child: ChildProcess, failure: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => output.push(String(chunk)));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(output.join(""));
      else reject(new StackError(`${failure}:\n${output.join("").trim()}`));
    });
  });
}

/** Returns the command that runs the server on loopback in the foreground. SIGINT shuts the server down fast. */
export async function clusterCommand(options: Omit<ClusterOptions, "passwords">) {
  const placement = options.placement ?? (await placeCluster(options.dataDir));
  const settings = {
    port: options.port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    ...serverSettings,
  };
  const settingArguments = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  return { command: placement.postgres, args: ["-D", placement.dataDir, ...settingArguments], ...placement.user };
}

/**
 * Removes the lock file of a server that has ended if its pid now belongs to another process. Postgres would take that
 * process for a running server and refuse to start.
 */
export function removeStaleLock(dataDir: string): void {
  const lock = path.join(dataDir, "postmaster.pid");
  if (process.platform !== "linux" || !existsSync(lock)) return;
  const pid = readFileSync(lock, "utf8").split("\n")[0]?.trim() ?? "";
  try {
    if (readlinkSync(`/proc/${pid}/cwd`) === dataDir) return;
  } catch {
    return;
  }
  rmSync(lock, { force: true });
}

/**
 * Loads `safeupdate` into the Data API's sessions, as hosted Supabase does (supabase/postgres, 20220118070449), if the
 * Postgres installation contains it. Postgres from the npm package does not.
 */
const loadSafeupdate = `
  do $$
  begin
    if exists (
      select from pg_config as c, lateral pg_ls_dir(c.setting, true, false) as file
      where c.name = 'PKGLIBDIR' and file ~ '^safeupdate[.](so|dylib|dll)$'
    ) then
      alter role authenticator set session_preload_libraries = 'safeupdate';
    else
      alter role authenticator reset session_preload_libraries;
    end if;
  end $$`;

/**
 * Sets up a new cluster to match a new hosted Supabase project. For an existing cluster, updates only the loading of
 * `safeupdate` and the roles' passwords.
 */
export async function bootstrapCluster({ port, passwords }: Omit<ClusterOptions, "dataDir">): Promise<void> {
  const connection = { host: "127.0.0.1", port, user: superuser, password: passwords[superuser], database: "postgres" };
  await withDatabase(connection, async (client) => {
    await client.query("begin");
    const { rowCount } = await client.query("select from pg_roles where rolname = 'supabase_auth_admin'");
    if (rowCount === 0) {
      await client.query(await readFile(new URL("./bootstrap.sql", import.meta.url), "utf8"));
    }
    await client.query(loadSafeupdate);
    for (const role of loginRoles) {
      await client.query(`alter role ${role} password ${client.escapeLiteral(passwords[role])}`);
    }
    await client.query("commit");
  });
}
