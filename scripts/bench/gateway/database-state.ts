import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";

/** Number of write-ahead log files. With 16 MB each they make 1 GB, the default `max_wal_size`. */
const logFiles = 64;
const vacuumLimitMs = 10_000;
const pollMs = 100;

/** Describes how the bench prepares the database. Printed with the results. */
export const databasePreparation: string =
  "The bench prepares the database: 1 GB of write-ahead log is written before the rounds, and a checkpoint runs before " +
  "each latency and stream measurement.";

/**
 * Fills the write-ahead log of a new database with reusable files, as in a database that has been in use.
 * @param superuser a connection that may switch to the next file
 */
export async function makeLogFiles(superuser: pg.Client): Promise<void> {
  for (let file = 0; file < logFiles; file += 1) {
    // Postgres does not switch to a new file while the current file is empty.
    await superuser.query("select pg_logical_emit_message(false, 'bench', 'x')");
    await superuser.query("select pg_switch_wal()");
  }
  await superuser.query("checkpoint");
}

/**
 * Waits for running vacuums and writes all dirty pages, so that a measurement doesn't pay for the previous load.
 * @param superuser a connection that may request a checkpoint and sees autovacuum workers
 */
export async function clearBacklog(superuser: pg.Client): Promise<void> {
  const deadline = performance.now() + vacuumLimitMs;
  while (performance.now() < deadline) {
    const { rowCount } = await superuser.query(
      "select from pg_stat_activity where backend_type = 'autovacuum worker' limit 1",
    );
    if (rowCount === 0) break;
    await sleep(pollMs);
  }
  await superuser.query("checkpoint");
}
