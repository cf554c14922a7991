import { Pool } from "pg";
import { readStack } from "../../scripts/test/stack.ts";
import type { Database } from "./database.ts";

/** Opens a pool of autocommit connections for tests of concurrent callers. The default role is `postgres`. */
export function openPool(
  connections: number,
  connectionString: string = readStack().supabase.dbUrl,
): { db: Database; close: () => Promise<void> } {
  const pool = new Pool({ connectionString, max: connections });
  return { db: databaseOn(pool), close: () => pool.end() };
}

const kept = new Map<string, Database>();

/**
 * Returns a pool that all test files of a process share. Keeps connections open, because the first statements of a new
 * connection cost as much as dozens of later statements: Postgres reads the catalogue and compiles triggers. `close`
 * does nothing.
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
  // Crash tests kill idle connections; the next query gets a new one.
  pool.on("error", () => {});
  return {
    query: async (sql, values) => (await pool.query(sql, values)).rows,
    asUser: () => Promise.reject(new Error("a pool takes no role")),
    asRole: () => Promise.reject(new Error("a pool takes no role")),
  };
}
