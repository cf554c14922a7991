import { describe, expect } from "vitest";
import { createActor, failureOf, mfaStates } from "../actors.ts";
import { type Database, test } from "../database.ts";

const record = (db: Database, userId: string, kind = "sign_in.succeeded") =>
  db.query("insert into public.security_events (user_id, kind, method) values ($1, $2, 'password')", [userId, kind]);

describe("security events", () => {
  test.for(mfaStates)(
    "an account can read its own security events only if MFA is satisfied ($mfa: $satisfied)",
    async ({ mfa, satisfied }, { db }) => {
      const [claims, other] = [await createActor(db, { mfa }), await createActor(db, {})];
      await record(db, claims.sub);
      await record(db, other.sub);
      const rows = await db.asUser(claims, () => db.query("select user_id, kind from public.security_events"));
      expect(rows).toEqual(satisfied ? [{ user_id: claims.sub, kind: "sign_in.succeeded" }] : []);
    },
  );

  test.for([
    "insert into public.security_events (user_id, kind) values (gen_random_uuid(), 'x')",
    "update public.security_events set kind = 'x'",
    "delete from public.security_events",
  ])("security events can't be changed by a user's %s", async (sql, { db }) => {
    const claims = await createActor(db, {});
    expect((await failureOf(() => db.asUser(claims, () => db.query(sql)))).code).toBe("42501");
  });

  test("the service role can add security events but can't change them", async ({ db }) => {
    const { sub } = await createActor(db, {});
    await db.asRole("service_role", () => record(db, sub));
    for (const sql of ["update public.security_events set kind = 'x'", "delete from public.security_events"])
      expect((await failureOf(() => db.asRole("service_role", () => db.query(sql)))).code).toBe("42501");
  });

  test("security events are deleted with the account", async ({ db }) => {
    const { sub } = await createActor(db, {});
    await record(db, sub);
    await db.query("delete from auth.users where id = $1", [sub]);
    expect(await db.query("select from public.security_events where user_id = $1", [sub])).toEqual([]);
  });

  test("anon can't read security events", async ({ db }) => {
    const read = () => db.asRole("anon", () => db.query("select from public.security_events"));
    expect((await failureOf(read)).code).toBe("42501");
  });

  test("kinds of security events consist of lower-case words", async ({ db }) => {
    const { sub } = await createActor(db, {});
    expect((await failureOf(() => record(db, sub, "Sign in"))).code).toBe("23514");
  });
});
