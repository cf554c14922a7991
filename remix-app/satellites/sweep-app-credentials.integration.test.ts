import { expect, test } from "vitest";
import { createApp, createPerson, mint, service } from "../../scripts/test/apps.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { upkeepTask } from "../schedule/upkeep.ts";

const { supabase } = readStack();

test("the sweep deletes app tokens that ended more than a day ago and keeps newer ones", async () => {
  const { db, close } = openPool(1);
  const person = await createPerson();
  try {
    const app = await createApp({ scopes: ["profile"] });
    await mint(person, app);
    await mint(person, app);
    await db.query(
      `update private.cross_app_tokens t
       set created_at = now() - interval '2 days', expires_at = now() - interval '2 days' + interval '1 minute'
       where t.id = (select id from private.cross_app_tokens where user_id = $1 limit 1)`,
      [person.id],
    );
    const env = { SUPABASE_URL: supabase.url, SUPABASE_SECRET_KEY: supabase.secretKey };
    const task = upkeepTask(env, "sweep-app-credentials");
    await expect
      .poll(
        async () => {
          await task.run(AbortSignal.timeout(5_000));
          return (await db.query("select from private.cross_app_tokens where user_id = $1", [person.id])).length;
        },
        { timeout: 10_000 },
      )
      .toBe(1);
  } finally {
    await service.auth.admin.deleteUser(person.id);
    await close();
  }
});
