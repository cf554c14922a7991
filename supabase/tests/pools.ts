import { Pool } from "pg";
import { readStack } from "../../scripts/test/stack.ts";
import type { Database } from "./database.ts";

/** Connections of their own, each statement a transaction: of role `postgres` for tests of concurrent callers. */
export function openPool(
  connections: number,
  connectionString: string = readStack().supabase.dbUrl,
): { db: Database; close: () => Promise<void> } {
  const pool = new Pool({ connectionString, max: connections });
  return { db: databaseOn(pool), close: () => pool.end() };
}

const kept = new Map<string, Database>();

/**
 * As {@link openPool}, for the files of a process one after the other: the first statements of a new connection cost as
 * much as dozens of theirs, since it has to read the catalogue and to compile the triggers that they run. To close it
 * leaves its connections to whoever comes next.
 */
export function keptPool(): { db: Database; close: () => Promise<void> } {
  const connectionString = readStack().supabase.dbUrl;
  const db =
    kept.get(connectionString) ??
    databaseOn(new Pool({ connectionString, max: 8, idleTimeoutMillis: 60_000, allowExitOnIdle: true }));
  kept.set(connectionString, db);
  return { db, close: async () => {} };
}

function databaseOn(pool: Pool): Database {
  // Tests of crashes take the server from under an idle connection; whoever asks next gets another.
  pool.on("error", () => {});
  return {
    query: async (sql, values) => (await pool.query(sql, values)).rows,
    asUser: () => Promise.reject(new Error("a pool takes no role")),
    asRole: () => Promise.reject(new Error("a pool takes no role")),
  };
}
