import { describe, expect } from "vitest";
import { admitAll, chatCall, createTenant, outcome, settle } from "./ai-fixtures.ts";
import { type Database, test } from "./database.ts";

/** The number of other callers' rate windows, as on a medium-sized platform. */
const others = 2_000;

/** Returns how many rows of the rate windows this transaction has read so far. */
async function minutesRead(db: Database): Promise<number> {
  const [row] = await db.query<{ read: string }>(
    "select seq_tup_read + idx_tup_fetch as read from pg_catalog.pg_stat_xact_user_tables where relname = 'rate_windows'",
  );
  return Number(row?.read);
}

describe("a batch of calls", () => {
  test("a batch reads only its own callers' rate windows, even with query plans made when the table was nearly empty", async ({
    db,
  }) => {
    const tenant = await createTenant(db, {
      credits: "100",
      plan: { requestsPerMinute: 1_000 },
      key: { requestsPerMinute: 1_000 },
    });
    const calls = JSON.stringify([1, 2, 3, 4].map(() => chatCall(tenant)));
    const begin = () => db.query("select ai.begin_runs($1)", [calls]);
    // The statistics may date from when the table was empty.
    await db.query("analyze ai.rate_windows");
    await begin();
    await db.query(
      `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
       select s, gen_random_uuid(), date_trunc('minute', now()), 0, 0
       from unnest('{key,workspace}'::text[]) s, generate_series(1, $1::integer)`,
      [others / 2],
    );
    const before = await minutesRead(db);
    await begin();
    expect((await minutesRead(db)) - before).toBeLessThan(100);
  });
});

describe("ending runs", () => {
  test("ending runs updates nearly all rows in place, without new index entries", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", plan: { requestsPerMinute: 1_000 } });
    const written = async () => {
      const [row] = await db.query<{ updated: string; inPlace: string }>(
        `select sum(n_tup_upd) as updated, sum(n_tup_hot_upd) as "inPlace"
         from pg_catalog.pg_stat_xact_user_tables where schemaname = 'ai' and relname like 'runs\\_%'`,
      );
      return { updated: Number(row?.updated), inPlace: Number(row?.inPlace) };
    };
    const runs = await admitAll(
      db,
      Array.from({ length: 30 }, () => chatCall(tenant)),
    );
    expect(runs.filter(({ run_id }) => run_id)).toHaveLength(30);
    await settle(
      db,
      runs.slice(0, 20).map((run) => outcome(run)),
    );
    for (const run of runs.slice(20)) await settle(db, [outcome(run)]);
    const { updated, inPlace } = await written();
    expect(updated).toBe(30);
    expect(inPlace).toBeGreaterThanOrEqual(25);
  });
});
