import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { messageOf, StackError } from "@gatehousehq/local-stack/errors";
import { majorVersion } from "@gatehousehq/local-stack/services/postgres/placement";

type Name = "pg_dump" | "pg_restore" | "psql";

export const nothingChanged = "Nothing was changed.";

/**
 * Returns Postgres's programs, from `folder` or else from the path. Archives of pg_dump and pg_restore need the server's
 * major version (https://www.postgresql.org/docs/17/app-pgdump.html, "Notes"); a newer psql is fine.
 * @throws StackError if one is missing or has another version. The message says where to get it
 */
export function findPrograms<const Names extends Name>(
  names: readonly Names[],
  folder: string | undefined,
): Record<Names, string> {
  const found = names.map((name) => [name, folder ? path.resolve(folder, name) : name] as const);
  for (const [name, program] of found) {
    const { stdout } = spawnSync(program, ["--version"], { encoding: "utf8" });
    const major = Number(/\(PostgreSQL\) (\d+)/.exec(stdout ?? "")?.[1]);
    const required = Number(majorVersion);
    if (name === "psql" ? major >= required : major === required) continue;
    const fault = Number.isNaN(major) ? "cannot be run" : `is of Postgres ${major}`;
    throw new StackError(
      `This needs ${names.join(" and ")} of Postgres ${majorVersion}, and ${folder ? program : `${name} in the path`} ${fault}. ${nothingChanged}\n` +
        `Debian and Ubuntu: package postgresql-client-${majorVersion} of https://www.postgresql.org/download/linux/. macOS: brew install postgresql@${majorVersion}.\n` +
        `Then set POSTGRES_BIN to the folder of the programs, for example /usr/lib/postgresql/${majorVersion}/bin.`,
    );
  }
  return Object.fromEntries(found) as Record<Names, string>;
}

const connectionLimitMs = 15_000;

/** @throws StackError if the database cannot be reached or refuses the login. The message says where addresses are described */
export async function requireConnection(dbUrl: string): Promise<void> {
  const config = { connectionString: dbUrl, connectionTimeoutMillis: connectionLimitMs };
  await withDatabase(config, async () => undefined).catch((error: unknown) => {
    throw new StackError(
      `The database of SUPABASE_DB_URL (${new URL(dbUrl).host}) cannot be used: ${messageOf(error)}. ${nothingChanged}\n` +
        'Correct the address: docs/deploying.md, "Database addresses".',
    );
  });
}

/** Returns how a program connects. Its arguments do not include the password, because other users can list them. */
export function connectProgram(dbUrl: string): { address: string; env: NodeJS.ProcessEnv } {
  const url = new URL(dbUrl);
  const password = decodeURIComponent(url.password) || url.searchParams.get("password");
  url.password = "";
  url.searchParams.delete("password");
  return { address: url.href, env: { ...process.env, ...(password ? { PGPASSWORD: password } : {}), LC_ALL: "C" } };
}

export type Running = {
  child: ChildProcessWithoutNullStreams;
  /** Resolves when the program has succeeded. Rejects with a StackError that has its messages if it failed. */
  done: Promise<void>;
};

export function startProgram(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Running {
  const child = spawn(program, args, { env });
  let messages = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    if (messages.length < 10_000) messages += text;
  });
  // A program that fails stops reading. Its exit code reports that.
  child.stdin.on("error", () => undefined);
  const done = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      if (code === 0) resolve();
      else reject(new StackError(`${path.basename(program)} failed (${signal ?? code}): ${messages.trim()}`));
    });
  });
  // Callers may await this only after the streams have ended.
  done.catch(() => undefined);
  return { child, done };
}
