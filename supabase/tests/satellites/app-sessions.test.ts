import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import {
  type Answer,
  beginAppSession,
  call,
  introspect,
  newHash,
  type OpenSession,
  openAppSession,
  refreshSession,
  registerApp,
  revoke,
  setPolicy,
} from "../apps/fixtures.ts";
import { createUser, currentSecond, type Database, enrollFactor, one, signIn, test } from "../database.ts";

/** Introspects the app's token and calls the central API with the central token. Returns both responses. */
const worth = async (db: Database, { app, appHash, centralHash }: OpenSession) => ({
  app: await introspect(db, { app, hash: appHash }),
  central: await call<Answer>(db, "list_workspaces_by_app_session", { token_hash: centralHash }),
});

const dead = { app: { active: false }, central: { refused: "unauthenticated" } };

describe("an app session", () => {
  test("an app can read the person, the scopes and the expiry of its app session", async ({ db }) => {
    const session = await beginAppSession(db);
    const email = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [session.claims.sub],
    });
    expect(await introspect(db, { app: session.app, hash: session.appHash })).toEqual({
      active: true,
      session: expect.objectContaining({ audience: "app", user: session.claims.sub }),
      scopes: ["profile", "workspaces:read", "workspaces:write"],
      endsAt: expect.any(String),
      profile: { name: session.claims.sub, email: email.email, picture: null },
    });
    expect(await introspect(db, { app: session.app, hash: session.centralHash })).toMatchObject({
      active: true,
      session: { audience: "central" },
    });
  });

  test("an app session without the profile scope shows its app nothing about the person", async ({ db }) => {
    const session = await openAppSession(db, {
      claims: await createActor(db, {}),
      app: await registerApp(db, { scopes: ["workspaces:read"] }),
    });
    expect(await introspect(db, { app: session.app, hash: session.appHash })).toMatchObject({
      active: true,
      profile: null,
    });
  });

  test("an app session is inactive for another app, and for its own app with a wrong secret", async ({ db }) => {
    const session = await beginAppSession(db);
    const other = await registerApp(db);
    expect(await introspect(db, { app: other, hash: session.appHash })).toEqual({ active: false });
    expect(await refreshSession(db, { app: other, hash: session.appHash, successor: newHash() })).toEqual({
      refused: "token",
    });
    expect(await revoke(db, { app: other, hash: session.appHash })).toBe(true);
    const wrong = { ...session.app, secretHash: newHash() };
    expect(await introspect(db, { app: wrong, hash: session.appHash })).toEqual({ refused: "unauthenticated" });
    expect(await refreshSession(db, { app: wrong, hash: session.appHash, successor: newHash() })).toEqual({
      refused: "unauthenticated",
    });
    expect(await revoke(db, { app: wrong, hash: session.appHash })).toBe(false);
    expect((await worth(db, session)).app).toMatchObject({ active: true });
  });

  test("an app session loses a scope when its app's registration loses the scope, but never gains one", async ({
    db,
  }) => {
    const session = await openAppSession(db, {
      claims: await createActor(db, {}),
      app: await registerApp(db, { scopes: ["profile", "workspaces:read"] }),
    });
    const scopesAre = async (registered: string[]) => {
      await db.query("update private.apps set scopes = $1 where id = $2", [registered, session.app.id]);
      return (await introspect(db, { app: session.app, hash: session.appHash })).scopes;
    };
    expect(await scopesAre(["workspaces:read", "workspaces:write"])).toEqual(["workspaces:read"]);
    expect(await scopesAre(["profile", "workspaces:write"])).toEqual(["profile"]);
    expect(await worth(db, session)).toMatchObject({ central: { refused: "insufficient_scope" } });
  });

  test("an app session survives the identity backend's encryption of the stored password hash", async ({ db }) => {
    const session = await beginAppSession(db);
    await db.query(
      `update auth.users set encrypted_password = '{"key_id":"k1","alg":"aes-gcm-hkdf"}', updated_at = now() where id = $1`,
      [session.claims.sub],
    );
    expect(await worth(db, session)).toMatchObject({ app: { active: true } });
    await db.query(
      `update auth.users set encrypted_password = '{"key_id":"k1","alg":"aes-gcm-hkdf","data":"x"}', recovery_token = ''
       where id = $1`,
      [session.claims.sub],
    );
    expect(await worth(db, session)).toEqual(dead);
  });

  test.for([
    ["a sign-out on the web", "delete from auth.sessions where user_id = $1"],
    ["the web session's end", "update auth.sessions set not_after = now() where user_id = $1"],
    ["a ban", "update auth.users set banned_until = now() + interval '1 hour' where id = $1"],
    ["the account's closure", "update auth.users set deleted_at = now() where id = $1"],
    ["a password change", "update auth.users set encrypted_password = gen_random_uuid()::text where id = $1"],
    ["the account's deletion", "delete from auth.users where id = $1"],
  ] as const)("an app session ends with %s", async ([, sql], { db }) => {
    const session = await beginAppSession(db);
    expect(await worth(db, session)).toMatchObject({ app: { active: true }, central: { workspaces: [{}] } });
    await db.query(sql, [session.claims.sub]);
    expect(await worth(db, session)).toEqual(dead);
    expect(await refreshSession(db, { app: session.app, hash: session.appHash, successor: newHash() })).toEqual({
      refused: "token",
    });
  });

  test("an app session is not restored when a ban is lifted", async ({ db }) => {
    const session = await beginAppSession(db);
    const ban = (until: string) =>
      db.query(`update auth.users set banned_until = ${until} where id = $1`, [session.claims.sub]);
    await ban("now() + interval '1 hour'");
    await ban("null");
    expect(await worth(db, session)).toEqual(dead);
  });

  test("an app session stays valid when a web session that it does not depend on ends", async ({ db }) => {
    const session = await beginAppSession(db);
    const other = await signIn(db, { userId: session.claims.sub });
    await db.query("delete from auth.sessions where id = $1", [other.session_id]);
    expect(await worth(db, session)).toMatchObject({ app: { active: true } });
  });

  test("an app session ends when its second factor is removed, even if another factor remains or none is required any more", async ({
    db,
  }) => {
    for (const another of [true, false]) {
      const user = await createUser(db);
      const factorId = await enrollFactor(db, { userId: user.id });
      if (another) await enrollFactor(db, { userId: user.id });
      const claims = await signIn(db, { userId: user.id, factorId });
      const session = await openAppSession(db, { claims, app: await registerApp(db) });
      await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
      expect(await worth(db, session)).toEqual(dead);
    }
  });

  test("an app session is refused once the account has a second factor that the session never used", async ({ db }) => {
    const session = await beginAppSession(db);
    await enrollFactor(db, { userId: session.claims.sub, status: "unverified" });
    expect(await worth(db, session)).toMatchObject({ app: { active: true } });
    await enrollFactor(db, { userId: session.claims.sub });
    expect(await worth(db, session)).toEqual({ app: { active: false }, central: { refused: "mfa_required" } });
  });

  test.for([
    ["required", { required: true, boundary: 0, generation: 2 }],
    ["optional", { required: false, boundary: 0, generation: 2 }],
    ["in recovery", { required: true, boundary: 0, generation: 2, recovery: "in_progress" }],
  ] as const)("an app session ends with any change of the MFA policy: %s", async ([, policy], { db }) => {
    const session = await beginAppSession(db, "required, at AAL2");
    expect(await worth(db, session)).toMatchObject({ app: { active: true }, central: { workspaces: [{}] } });
    await setPolicy(db, { userId: session.claims.sub, policy });
    expect(await worth(db, session)).toEqual(dead);
  });

  test("an app session is valid only if its password and second factor were used after the boundaries in the MFA policy, to the second", async ({
    db,
  }) => {
    const session = await beginAppSession(db, "required, at AAL2");
    const second = await currentSecond(db);
    const boundaryAt = (boundary: number, primaryBoundary: number | null) =>
      setPolicy(db, {
        userId: session.claims.sub,
        policy: { required: true, boundary, primaryBoundary, generation: 1 },
      });
    // `signIn` backdates the second factor by one second and the password by two seconds.
    await boundaryAt(second - 2, second - 3);
    expect(await worth(db, session)).toMatchObject({ app: { active: true } });
    await boundaryAt(second - 1, null);
    expect(await worth(db, session)).toEqual({ app: { active: false }, central: { refused: "mfa_required" } });
    await boundaryAt(second - 2, second - 2);
    expect(await worth(db, session)).toEqual({ app: { active: false }, central: { refused: "mfa_required" } });
  });

  test("an app session is temporarily refused while the policy can't be read", async ({ db }) => {
    const session = await beginAppSession(db);
    await setPolicy(db, { userId: session.claims.sub, policy: { version: 2 } });
    expect(await worth(db, session)).toEqual({
      app: { refused: "unavailable" },
      central: { refused: "unavailable" },
    });
    expect(await refreshSession(db, { app: session.app, hash: session.appHash, successor: newHash() })).toEqual({
      refused: "unavailable",
    });
  });

  test("an app session expires exactly eight hours after it was issued", async ({ db }) => {
    const session = await beginAppSession(db);
    const expireAt = (moment: string) =>
      db.query(
        `update private.app_sessions set issued_at = now() - interval '8 hours', expires_at = ${moment} where user_id = $1`,
        [session.claims.sub],
      );
    await expireAt("now()");
    expect(await worth(db, session)).toEqual(dead);
    expect(await refreshSession(db, { app: session.app, hash: session.appHash, successor: newHash() })).toEqual({
      refused: "token",
    });
  });

  test("revoking either token of an app session revokes its central session too", async ({ db }) => {
    for (const which of ["appHash", "centralHash"] as const) {
      const session = await beginAppSession(db);
      expect(await revoke(db, { app: session.app, hash: session[which] })).toBe(true);
      expect(await worth(db, session)).toEqual(dead);
    }
  });

  test("an app session is stored only as hashes", async ({ db }) => {
    const columns = await db.query<{ name: string }>(
      "select attname as name from pg_attribute where attrelid = 'private.app_sessions'::regclass and attnum > 0",
    );
    expect(columns.map(({ name }) => name).filter((name) => /token|hash|refresh|access|jwt/.test(name))).toEqual([
      "token_hash",
      "previous_hash",
    ]);
  });

  test("an app session is deleted a day after it ended, and not before", async ({ db }) => {
    const session = await beginAppSession(db);
    const endAt = (moment: string) =>
      db.query(
        `update private.app_sessions set created_at = now() - interval '31 days', issued_at = now() - interval '31 days',
           expires_at = now() - interval '31 days', ends_at = ${moment} where user_id = $1`,
        [session.claims.sub],
      );
    const left = async () => {
      await call<number>(db, "sweep_app_credentials", {});
      return (await db.query("select from private.app_sessions where user_id = $1", [session.claims.sub])).length;
    };
    await endAt("now() - interval '1 day'");
    expect(await left()).toBe(2);
    await endAt("now() - interval '1 day 1 microsecond'");
    expect(await left()).toBe(0);
  });
});
