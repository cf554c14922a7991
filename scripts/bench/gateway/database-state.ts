import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";

/** Of 16 MB: as much as Postgres keeps for later by itself (max_wal_size). */
const logFiles = 64;
const vacuumLimitMs = 10_000;
const pollMs = 100;

/**
 * Gives a new database what one in use has: files of its log that were written before. A commit into one of these takes
 * the disk about two thirds of what it takes where there is room to be found first.
 * @param superuser may switch to the next file
 */
export async function makeLogFiles(superuser: pg.Client): Promise<void> {
  for (let file = 0; file < logFiles; file += 1) {
    // A file with nothing in it is not left for the next one.
    await superuser.query("select pg_logical_emit_message(false, 'bench', 'x')");
    await superuser.query("select pg_switch_wal()");
  }
  await superuser.query("checkpoint");
}

/**
 * Has the database do what load left behind: write the pages that were changed, and vacuum. At its own pace it takes
 * minutes for it, in which the next measurement would pay for the one before.
 * @param superuser may ask for a checkpoint, and sees who vacuums
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
