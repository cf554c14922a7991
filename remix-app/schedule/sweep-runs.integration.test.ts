import { expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";
import { abandon, begin, books, chatCall, createTenant, runRow } from "../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { upkeepTask } from "./upkeep.ts";

const { supabase } = readStack();
const sweep = (SUPABASE_SECRET_KEY: string) =>
  upkeepTask({ SUPABASE_URL: supabase.url, SUPABASE_SECRET_KEY }, "sweep-runs").run(AbortSignal.timeout(5_000));

test("an abandoned run is closed and its reservation released, even if no calls arrive", async () => {
  const { db, close } = openPool(1);
  try {
    const tenant = await createTenant(db, { credits: "1000" });
    const run = await begin(db, chatCall(tenant));
    await abandon(db, run);
    expect((await books(db, tenant)).reserved).not.toBe("0.00000000");

    await expect
      .poll(
        async () => {
          await sweep(supabase.secretKey);
          return (await runRow(db, run)).status;
        },
        { timeout: 10_000 },
      )
      .toBe("failed");
    expect(await runRow(db, run)).toMatchObject({ usage_source: "unavailable", http_status: 500, swept: true });
    expect((await books(db, tenant)).reserved).toBe("0.00000000");
  } finally {
    await close();
  }
});

test("sweeping runs with the publishable key fails with permission denied", async () => {
  await expect(sweep(supabase.publishableKey)).rejects.toThrow(/permission denied/);
});
