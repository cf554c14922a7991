import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf, mfaStates } from "../actors.ts";
import { type Claims, createUser, type Database, enrollFactor, one, signIn, test } from "../database.ts";

const stateOf = (db: Database, claims: Claims) =>
  db.asUser(claims, async () => (await one(db, { sql: "select public.session_state() as state" })).state);

describe("session_state", () => {
  test("session_state returns the current facts about the caller's own session", async ({ db }) => {
    const user = await createUser(db, {
      userMetadata: { display_name: "Ada", avatar_url: "https://x.test/a.png", aal: "aal2" },
    });
    const claims = await signIn(db, { userId: user.id });
    expect(await stateOf(db, claims)).toEqual({
      alive: true,
      sessionId: claims.session_id,
      notAfter: null,
      aal: "aal1",
      user: {
        id: user.id,
        email: user.email,
        displayName: "Ada",
        avatarUrl: "https://x.test/a.png",
        banned: false,
        deleted: false,
      },
      hasVerifiedFactor: false,
      policy: { state: "optional", required: false, since: null, satisfied: true },
      mustReplacePassword: false,
      consoleRole: null,
      infrastructureAdmin: false,
    });
  });

  test.for(mfaStates.filter(({ mfa }) => mfa !== "session over"))(
    "session_state shows whether the MFA policy is satisfied, even to a session that doesn't satisfy it ($mfa: $satisfied)",
    async ({ mfa, satisfied }, { db }) => {
      const claims = await createActor(db, { mfa });
      const state = await stateOf(db, claims);
      expect(state).toMatchObject({ alive: true, user: { id: claims.sub }, policy: { satisfied } });
    },
  );

  test.for([
    ["required, at AAL2", "required", true],
    ["required, no factor", "required", true],
    ["recovery in progress", "recovery_in_progress", true],
    ["malformed policy", "malformed", true],
    ["a factor, at AAL1", "optional", false],
  ] as const)(
    'for an account in the MFA state "%s", session_state returns the policy state "%s"',
    async ([mfa, state, required], { db }) => {
      const claims = await createActor(db, { mfa });
      expect(await stateOf(db, claims)).toMatchObject({ policy: { state, required } });
    },
  );

  test("session_state distinguishes a verified factor from an unfinished one", async ({ db }) => {
    const user = await createUser(db);
    const claims = await signIn(db, { userId: user.id });
    await enrollFactor(db, { userId: user.id, status: "unverified" });
    expect(await stateOf(db, claims)).toMatchObject({ hasVerifiedFactor: false });
    await enrollFactor(db, { userId: user.id });
    expect(await stateOf(db, claims)).toMatchObject({ hasVerifiedFactor: true });
  });

  test("session_state shows nothing about the account once the session has ended", async ({ db }) => {
    const claims = await createActor(db, { mfa: "session over" });
    expect(await stateOf(db, claims)).toEqual({ alive: false });
  });

  test.for([
    ["another account's session", (claims: Claims, other: Claims) => ({ ...claims, session_id: other.session_id })],
    ["another account's id", (claims: Claims, other: Claims) => ({ ...claims, sub: other.sub })],
    ["an unknown session", (claims: Claims) => ({ ...claims, session_id: randomUUID() })],
    ["no session", (claims: Claims) => ({ ...claims, session_id: "" })],
    ["an invalid UUID", (claims: Claims) => ({ ...claims, sub: "root" })],
  ] as const)("session_state returns nothing for a token with %s", async ([, forge], { db }) => {
    const [claims, other] = [await createActor(db, {}), await createActor(db, {})];
    expect(await stateOf(db, forge(claims, other))).toEqual({ alive: false });
  });

  test("session_state shows that an account is banned or deleted, and that its policy is not satisfied", async ({
    db,
  }) => {
    const claims = await createActor(db, {});
    await db.query("update auth.users set banned_until = now() + interval '1 day', deleted_at = now() where id = $1", [
      claims.sub,
    ]);
    expect(await stateOf(db, claims)).toMatchObject({
      alive: true,
      user: { banned: true, deleted: true },
      policy: { satisfied: false },
    });
  });

  test("session_state recognizes an infrastructure admin by the row in private.infrastructure_admins, not by the token", async ({
    db,
  }) => {
    const claims = await createActor(db, {});
    const forged = { ...claims, app_metadata: { infrastructureAdmin: true } };
    expect(await stateOf(db, forged)).toMatchObject({ infrastructureAdmin: false });
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'first')", [claims.sub]);
    expect(await stateOf(db, claims)).toMatchObject({ consoleRole: "admin", infrastructureAdmin: true });
  });

  test("session_state recognizes a finance person by the row, and a server of release 0.3.0 sees no admin", async ({
    db,
  }) => {
    const claims = await createActor(db, {});
    await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [claims.sub]);
    expect(await stateOf(db, claims)).toMatchObject({ consoleRole: "finance", infrastructureAdmin: false });
    await db.query("delete from private.finance_people where user_id = $1", [claims.sub]);
    expect(await stateOf(db, claims)).toMatchObject({ consoleRole: null, infrastructureAdmin: false });
  });

  test("a session can be restricted to changing the password, until the password is changed", async ({ db }) => {
    const user = await createUser(db);
    const [claims, other] = [await signIn(db, { userId: user.id }), await signIn(db, { userId: user.id })];
    const stranger = await createUser(db);
    const restrict = (userId: string, sessionId: string) =>
      db.asRole("service_role", () =>
        db.query("select private.require_password_replacement($1, $2)", [userId, sessionId]),
      );
    await restrict(stranger.id, claims.session_id);
    expect(await stateOf(db, claims)).toMatchObject({ mustReplacePassword: false });
    for (let times = 0; times < 2; times += 1) await restrict(user.id, claims.session_id);
    expect(await stateOf(db, claims)).toMatchObject({ mustReplacePassword: true });
    expect(await stateOf(db, other)).toMatchObject({ mustReplacePassword: false });
    await db.query("update auth.users set updated_at = now() where id = $1", [user.id]);
    expect(await stateOf(db, claims)).toMatchObject({ mustReplacePassword: true });
    await db.query("update auth.users set encrypted_password = 'another' where id = $1", [user.id]);
    expect(await stateOf(db, claims)).toMatchObject({ mustReplacePassword: false });
  });

  test("the password restriction of a session that has ended is deleted", async ({ db }) => {
    const user = await createUser(db);
    const ended = await signIn(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id });
    const restrict = "select private.require_password_replacement($1, $2)";
    await db.query(restrict, [user.id, ended.session_id]);
    await db.query("delete from auth.sessions where id = $1", [ended.session_id]);
    await db.query(restrict, [user.id, claims.session_id]);
    const rows = await db.query("select session_id from private.password_replacements where user_id = $1", [user.id]);
    expect(rows).toEqual([{ session_id: claims.session_id }]);
  });

  test("anon and the gateway can't call session_state", async ({ db }) => {
    for (const role of ["anon", "gateway"] as const) {
      const call = () => db.asRole(role, () => db.query("select public.session_state()"));
      expect((await failureOf(call)).code).toBe("42501");
    }
  });

  test("session_state finds its rows through an index", async ({ db }) => {
    await db.query("set local enable_seqscan = off");
    const claims = await createActor(db, { mfa: "a factor, at AAL2" });
    const plan = await db.query<{ "QUERY PLAN": string }>("explain select * from private.session_facts($1)", [
      JSON.stringify(claims),
    ]);
    expect(plan.map((row) => row["QUERY PLAN"]).join("\n")).not.toMatch(/Seq Scan|Function Scan/);
  });
});
