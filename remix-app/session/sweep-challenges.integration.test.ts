import { expect, test } from "vitest";
import { createPerson, deletePerson, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { upkeepTask } from "../schedule/upkeep.ts";

const { supabase } = readStack();
const sweep = (SUPABASE_SECRET_KEY: string) =>
  upkeepTask({ SUPABASE_URL: supabase.url, SUPABASE_SECRET_KEY }, "sweep-login-challenges").run(
    AbortSignal.timeout(5_000),
  );

test("the scheduled sweep deletes challenges that ended more than an hour ago, and keeps later ones", async () => {
  const person = await createPerson();
  try {
    for (const age of ["59 minutes", "61 minutes"]) {
      await query(
        `insert into private.login_challenges (kind, user_id, session_id, secret_hash, created_at, expires_at)
         values ('qr', $1, gen_random_uuid(), sha256('x'), now() - $2::interval - interval '2 minutes',
           now() - $2::interval)`,
        [person.id, age],
      );
    }
    // Repeats the sweep, because a sweep deletes nothing while another server is sweeping.
    const kept = async () => {
      await sweep(supabase.secretKey);
      return (await query("select from private.login_challenges where user_id = $1", [person.id])).length;
    };
    await expect.poll(kept, { timeout: 5_000 }).toBe(1);
  } finally {
    await deletePerson(person);
  }
});

test("sweeping challenges with the publishable key fails with permission denied", async () => {
  await expect(sweep(supabase.publishableKey)).rejects.toThrow(/permission denied/);
});
