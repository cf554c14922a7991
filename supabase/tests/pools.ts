import { Pool } from "pg";
import { readStack } from "../../scripts/test/stack.ts";
import type { Database } from "./database.ts";

/** Opens a pool of autocommit connections, with role `postgres` for tests of concurrent callers. */
export function openPool(
  connections: number,
  connectionString: string = readStack().supabase.dbUrl,
): { db: Database; close: () => Promise<void> } {
  const pool = new Pool({ connectionString, max: connections });
  return { db: databaseOn(pool), close: () => pool.end() };
}

const kept = new Map<string, Database>();

/**
 * Returns a pool like {@link openPool} that the test files of a process share. A new connection's first statements cost
 * as much as dozens of later statements, because Postgres reads the catalogue and compiles triggers. `close` keeps the
 * connections open.
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
