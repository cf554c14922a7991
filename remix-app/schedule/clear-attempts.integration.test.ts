import { expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { upkeepTask } from "./upkeep.ts";

const { supabase } = readStack();

test("one scheduled run clears more than one batch of expired attempts", async () => {
  const { db, close } = openPool(1);
  try {
    // A batch is 1,000 rows.
    await db.query(
      `insert into private.rate_limits (subject, action, scope, full_at)
       select sha256(convert_to(gen_random_uuid()::text, 'UTF8')), 'test.batches', 'account', now() - interval '1 hour'
       from generate_series(1, 2001)`,
    );
    const env = { SUPABASE_URL: supabase.url, SUPABASE_SECRET_KEY: supabase.secretKey };
    await upkeepTask(env, "clear-attempts").run(AbortSignal.timeout(10_000));
    // The stack's server may be clearing the same rows concurrently, so this waits until all rows are gone.
    const left = async () => (await db.query("select from private.rate_limits where action = 'test.batches'")).length;
    await expect.poll(left, { timeout: 10_000 }).toBe(0);
  } finally {
    await close();
  }
});
