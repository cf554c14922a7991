import { describe, expect } from "vitest";
import { createActor, createWorkspace } from "../actors.ts";
import { call, newHash, openPools, revoke, setPolicy } from "../apps/fixtures.ts";
import { createUser, enrollFactor, one, signIn, test } from "../database.ts";
import { beginExchange, exchange, issueAppToken, newPair, refresh, tokenOf } from "./app-token-fixtures.ts";

describe("exchanging a cross-app token for app tokens", () => {
  test("exchanging a cross-app token returns a one-hour access token and a 30-day refresh token for the person and workspace", async ({
    db,
  }) => {
    const setting = await beginExchange(db);
    const pair = newPair();
    expect(await exchange(db, { ...setting, pair })).toEqual({
      user: setting.claims.sub,
      workspace: setting.workspaceId,
      scopes: ["ai:use", "workspace:session"],
      expiresAt: expect.any(String),
    });
    expect(await tokenOf(db, pair.access)).toEqual({
      app_id: setting.app.id,
      user_id: setting.claims.sub,
      workspace_id: setting.workspaceId,
      scopes: ["ai:use", "workspace:session"],
      refused: null,
    });
    const row = await one(db, {
      sql: `select extract(epoch from expires_at - now())::int as access, extract(epoch from refresh_expires_at - now())::int as refresh,
          (proof).session_id as session
        from ai.app_tokens where token_hash = $1`,
      values: [pair.access],
    });
    expect(row).toEqual({ access: 3600, refresh: 2_592_000, session: null });
  });

  test("only one of 60 concurrent exchanges of a cross-app token succeeds", async () => {
    const { db, service, close } = openPools(20);
    try {
      const setting = await beginExchange(db, { service });
      const answers = await Promise.all(Array.from({ length: 60 }, () => exchange(service, setting)));
      expect(answers.filter(({ refused }) => !refused)).toHaveLength(1);
      expect(answers.filter(({ refused }) => refused === "token")).toHaveLength(59);
    } finally {
      await close();
    }
  });

  test.for([
    [["ai:use"], true],
    [["workspace:session", "ai:use"], true],
    [["workspace:session", "ai:use", "tts:use"], false],
    [["profile"], false],
    [[], false],
  ] as const)(
    "an app with two registered scopes exchanges a token and requests the scopes %j (allowed: %s)",
    async ([scopes, allowed], { db }) => {
      const answer = await exchange(db, { ...(await beginExchange(db)), scopes: [...scopes] });
      if (allowed) expect(answer.scopes).toEqual(scopes);
      else expect(answer).toEqual({ refused: "scope" });
    },
  );

  test("an exchange that is refused because of its workspace does not use up the token, and reveals nothing about the workspace", async ({
    db,
  }) => {
    const setting = await beginExchange(db);
    const foreign = await createWorkspace(db);
    const linkedElsewhere = await createWorkspace(db);
    await call(db, "set_app_workspace", {
      app_name: setting.app.name,
      workspace_id: linkedElsewhere.id,
      linked: true,
      reason: "test",
    });
    const unlinked = await one<{ id: string }>(db, {
      sql: "select id from public.workspaces where personal_user_id = $1",
      values: [setting.claims.sub],
    });
    for (const workspaceId of [foreign.id, linkedElsewhere.id, unlinked.id, crypto.randomUUID()])
      expect(await exchange(db, { ...setting, workspaceId })).toEqual({ refused: "workspace" });
    expect(await exchange(db, setting)).not.toHaveProperty("refused");
  });

  test("only external apps can exchange a cross-app token for app tokens", async ({ db }) => {
    const setting = await beginExchange(db);
    await db.query("update private.apps set kind = 'internal', scopes = '{profile}' where id = $1", [setting.app.id]);
    expect(await exchange(db, setting)).toHaveProperty("refused");
  });

  test("an exchange is refused if a second factor was enrolled after the handoff", async ({ db }) => {
    const setting = await beginExchange(db);
    await enrollFactor(db, { userId: setting.claims.sub });
    expect(await exchange(db, setting)).toEqual({ refused: "token" });
  });
});

describe("an app token", () => {
  test("an app token survives sign-out", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db);
    await db.query("delete from auth.sessions where user_id = $1", [setting.claims.sub]);
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
  });

  test.for([
    ["a password change", "update auth.users set encrypted_password = gen_random_uuid()::text where id = $1"],
    ["a ban", "update auth.users set banned_until = now() + interval '1 hour' where id = $1"],
    ["the account's closure", "update auth.users set deleted_at = now() where id = $1"],
  ] as const)("%s ends an app token", async ([, sql], { db }) => {
    const { setting, pair } = await issueAppToken(db);
    await db.query(sql, [setting.claims.sub]);
    expect(await tokenOf(db, pair.access)).toBeUndefined();
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({ refused: "token" });
  });

  test.for(["access", "refresh"] as const)(
    "revoking an app's %s token also revokes the tokens refreshed from it",
    async (which, { db }) => {
      const { setting, pair } = await issueAppToken(db);
      const next = newPair();
      await refresh(db, { ...setting, from: pair.refresh, to: next });
      const others = await issueAppToken(db, { claims: setting.claims });
      for (let time = 0; time < 2; time += 1)
        expect(await revoke(db, { app: setting.app, hash: pair[which] })).toBe(true);
      for (const hash of [pair.access, next.access]) expect(await tokenOf(db, hash)).toBeUndefined();
      expect(await refresh(db, { ...setting, from: next.refresh, to: newPair() })).toEqual({ refused: "token" });
      expect(await tokenOf(db, others.pair.access)).toMatchObject({ refused: null });
    },
  );

  test("an app token is revoked only by its own app, which must authenticate", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db);
    const { app: other } = await beginExchange(db);
    expect(await revoke(db, { app: other, hash: pair.access })).toBe(true);
    expect(await revoke(db, { app: { ...setting.app, secretHash: newHash() }, hash: pair.access })).toBe(false);
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
  });

  test("an app token stays revoked after its app was disabled, even if the app is enabled again or its registration deleted", async ({
    db,
  }) => {
    const { setting, pair } = await issueAppToken(db);
    await db.query("update private.apps set enabled = false where id = $1", [setting.app.id]);
    await db.query("update private.apps set enabled = true where id = $1", [setting.app.id]);
    expect(await tokenOf(db, pair.access)).toBeUndefined();
    const other = await issueAppToken(db);
    await db.query("delete from private.apps where id = $1", [other.setting.app.id]);
    expect(await tokenOf(db, other.pair.access)).toBeUndefined();
  });

  test.for([
    ["the factor", "invalid_api_key"],
    ["the boundary", "invalid_api_key"],
    ["a factor never proved", "MFA_REQUIRED"],
    ["an unreadable policy", "AUTH_UNAVAILABLE"],
  ] as const)("an app token is refused after a change to the account's MFA: %s", async ([what, refused], { db }) => {
    const user = await createUser(db);
    const factorId = what === "a factor never proved" ? undefined : await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id, factorId });
    const { setting, pair } = await issueAppToken(db, { claims });
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
    const userId = user.id;
    if (what === "the factor") await db.query("delete from auth.mfa_factors where user_id = $1", [userId]);
    if (what === "the boundary")
      await setPolicy(db, { userId, policy: { required: true, boundary: 0, generation: 1 } });
    if (what === "a factor never proved") await enrollFactor(db, { userId });
    if (what === "an unreadable policy") await setPolicy(db, { userId, policy: { version: 2 } });
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused });
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({
      refused: what === "an unreadable policy" ? "unavailable" : "token",
    });
  });

  test("an app token is refused if the app is not linked to the workspace, or the person has left the workspace", async ({
    db,
  }) => {
    const claims = await signIn(db, { userId: (await createUser(db)).id });
    const { setting, pair } = await issueAppToken(db, { claims });
    const link = (linked: boolean) =>
      call(db, "set_app_workspace", {
        app_name: setting.app.name,
        workspace_id: setting.workspaceId,
        linked,
        reason: "test",
      });
    await link(false);
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: "app_not_allowed" });
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({ refused: "workspace" });
    await link(true);
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
    await db.query("delete from public.workspace_members where user_id = $1 and workspace_id = $2", [
      claims.sub,
      setting.workspaceId,
    ]);
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: "app_not_allowed" });
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({ refused: "workspace" });

    // Somebody who joins again connects the app again.
    await db.query(
      `insert into public.workspace_members (workspace_id, user_id, role_id, created_at)
       select $2, $1, id, now() + interval '1 second' from public.workspace_roles where workspace_id = $2 and name = 'member'`,
      [claims.sub, setting.workspaceId],
    );
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: "app_not_allowed" });
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({ refused: "workspace" });
  });

  test("an app token has a scope only while the app's registration has it too", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db, { scopes: ["workspace:session", "ai:use", "tts:use"] });
    const registered = (scopes: string[]) =>
      db.query("update private.apps set scopes = $1 where id = $2", [scopes, setting.app.id]);
    await registered(["workspace:session", "tts:use"]);
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: "insufficient_scope" });
    await registered(["workspace:session", "ai:use"]);
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null, scopes: ["ai:use", "workspace:session"] });

    const narrow = await beginExchange(db);
    const narrowPair = newPair();
    await exchange(db, { ...narrow, scopes: ["ai:use"], pair: narrowPair });
    expect(await tokenOf(db, narrowPair.access)).toMatchObject({ refused: "insufficient_scope" });
  });

  test("an app token expires exactly an hour after it was issued", async ({ db }) => {
    const { pair } = await issueAppToken(db);
    const expireAt = (moment: string) =>
      db.query(`update ai.app_tokens set expires_at = ${moment} where token_hash = $1`, [pair.access]);
    await expireAt("now() + interval '1 microsecond'");
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
    await expireAt("now()");
    expect(await tokenOf(db, pair.access)).toBeUndefined();
  });

  test("an app token keeps the handoff's MFA proof, and is not accepted as an app session", async ({ db }) => {
    const claims = await createActor(db, { mfa: "required, at AAL2" });
    const { pair } = await issueAppToken(db, { claims });
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
    expect(await call(db, "list_workspaces_by_app_session", { token_hash: pair.access })).toEqual({
      refused: "unauthenticated",
    });
  });
});
