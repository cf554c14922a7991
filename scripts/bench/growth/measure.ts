import type pg from "pg";
import { median } from "../statistics.ts";
import type { Operation } from "./operations.ts";

/** After five executions, PL/pgSQL may switch to one plan for all arguments. */
const executionsBefore = 6;
const readings = 15;
/** How long a slow operation is repeated to get a median. */
const patienceMs = 2_000;

/** Returns the median time of an operation in ms, on a connection that has already executed it six times. */
export async function timeOperation(client: pg.Client, { sql, values }: Operation): Promise<number> {
  for (let execution = 0; execution < executionsBefore; execution += 1) await client.query(sql, values);
  const tookMs: number[] = [];
  const begun = performance.now();
  while (tookMs.length < readings && performance.now() - begun < patienceMs) {
    const before = performance.now();
    await client.query(sql, values);
    tookMs.push(performance.now() - before);
  }
  return median(tookMs);
}

/**
 * Executes an operation six times, then returns how many rows the next execution reads. Reads Postgres's statistics of
 * the current transaction.
 */
export async function countRowsRead(client: pg.Client, { sql, values }: Operation): Promise<number> {
  for (let execution = 0; execution < executionsBefore; execution += 1) await client.query(sql, values);
  const before = await rowsRead(client);
  await client.query(sql, values);
  return (await rowsRead(client)) - before;
}

async function rowsRead(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ rows: string }>(
    `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) as rows
     from pg_catalog.pg_stat_xact_user_tables where schemaname in ('public', 'private', 'ai', 'auth')`,
  );
  return Number(rows[0]?.rows);
}
