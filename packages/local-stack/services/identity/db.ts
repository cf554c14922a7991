import pg from "pg";
import { AuthError } from "./core/errors.ts";

export type Database = pg.Pool;
/** The pool, or the connection of a transaction. */
export type Sql = Pick<pg.ClientBase, "query">;

/** Opens the pool. Connections closed by the server are replaced at their next use. */
export function openDatabase(url: string, onError: (error: Error) => void): Database {
  const pool = new pg.Pool({
    connectionString: url,
    max: 16,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    application_name: "identity",
  });
  pool.on("error", onError);
  return pool;
}

/**
 * Runs `work` in one transaction, and rolls back if it throws. An AuthError with `commits` is thrown after a commit
 * instead, since changes such as a revoked token family must be stored despite the refusal.
 */
export async function transaction<T>(db: Database, work: (tx: Sql) => Promise<T>): Promise<T> {
  const client = await db.connect();
  let broken: Error | undefined;
  // A connection lost between two statements emits an event, which would end the process if unhandled.
  const onLost = (error: Error) => {
    broken = error;
  };
  client.on("error", onLost);
  try {
    await client.query("begin");
    try {
      const result = await work(client);
      await client.query("commit");
      return result;
    } catch (error) {
      const commits = error instanceof AuthError && error.commits;
      await client.query(commits ? "commit" : "rollback").catch((connectionError: Error) => {
        broken = connectionError;
      });
      throw error;
    }
  } finally {
    client.off("error", onLost);
    client.release(broken);
  }
}

/** Returns the SQLSTATE of a database error; undefined for any other error. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/** Returns the first row, or undefined. */
export async function one<Row extends pg.QueryResultRow>(
  sql: Sql,
  text: string,
  values: unknown[] = [],
): Promise<Row | undefined> {
  const { rows } = await sql.query<Row>(text, values);
  return rows[0];
}
