import { describe, expect } from "vitest";
import { chatCall, createTenant } from "./ai-fixtures.ts";
import { type Database, test } from "./database.ts";

/** Of the minutes of others, as many as a platform has that is not small. */
const others = 2_000;

/** How many rows of the minutes this transaction has read by now. */
async function minutesRead(db: Database): Promise<number> {
  const [row] = await db.query<{ read: string }>(
    "select seq_tup_read + idx_tup_fetch as read from pg_catalog.pg_stat_xact_user_tables where relname = 'rate_windows'",
  );
  return Number(row?.read);
}

describe("a batch of calls", () => {
  test("reads its own callers' minutes alone, though its plans were made when there were few", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "100",
      plan: { requestsPerMinute: 1_000 },
      key: { requestsPerMinute: 1_000 },
    });
    const calls = JSON.stringify([1, 2, 3, 4].map(() => chatCall(tenant)));
    const begin = () => db.query("select ai.begin_runs($1)", [calls]);
    // What is known of them may be of a moment when there were none.
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
