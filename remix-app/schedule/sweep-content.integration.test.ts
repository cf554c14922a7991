import { expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";
import { begin, chatCall, createTenant } from "../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { upkeepTask } from "./upkeep.ts";

const { supabase } = readStack();

test("run content is deleted once its retention ends, even if no calls arrive", async () => {
  const { db, close } = openPool(1);
  try {
    const tenant = await createTenant(db, { credits: "1000" });
    await db.query("insert into ai.workspace_policies (workspace_id, content_capture) values ($1, true)", [
      tenant.workspaceId,
    ]);
    const { run_id: id, created_at } = await begin(db, chatCall(tenant));
    await db.query("select ai.store_run_content($1)", [JSON.stringify({ id, created_at, prompt: "{}" })]);
    await db.query("update ai.run_content set run_created_at = now() - interval '31 days' where run_id = $1", [id]);

    const env = { SUPABASE_URL: supabase.url, SUPABASE_SECRET_KEY: supabase.secretKey };
    const kept = async () => {
      // The stack's own server may be sweeping at this moment, and then this call has nothing to do.
      await upkeepTask(env, "sweep-content").run(AbortSignal.timeout(5_000));
      return (await db.query("select from ai.run_content where run_id = $1", [id])).length;
    };
    await expect.poll(kept, { timeout: 10_000 }).toBe(0);
  } finally {
    await close();
  }
});
