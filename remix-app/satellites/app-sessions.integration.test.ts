import { createHmac } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  asApp,
  bearer,
  createApp,
  createPerson,
  type Held,
  handOver,
  type Person,
  paths,
  send,
  service,
  signInAgain,
  signOut,
  type TestApp,
} from "../../scripts/test/apps.ts";
import { deletePerson, signedInLongAgo } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { setPolicy } from "../../supabase/tests/apps/fixtures.ts";
import { currentSecond, enrollFactor, one } from "../../supabase/tests/database.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { accessTokenOf } from "../testing/browser.ts";

const { base, supabase } = readStack();
const { db, close } = openPool(1);
let person: Person;
let app: TestApp;
let held: Held;
let workspaceId: string;

beforeAll(async () => {
  app = await createApp({ scopes: ["profile", "workspaces:read", "workspaces:write"] });
});
beforeEach(async () => {
  person = await createPerson();
  held = await handOver(person, app);
  const row = await one<{ id: string }>(db, {
    sql: "select id from public.workspaces where personal_user_id = $1",
    values: [person.id],
  });
  workspaceId = row.id;
  return async () => {
    await deletePerson(person);
  };
});
afterAll(close);

const introspect = async (token: string, by = app) => (await asApp(by, paths.introspect, { token })).body;
const central = (
  method: string,
  path: string,
  { token = held.centralSession.token, body }: { token?: string; body?: unknown } = {},
) => send(path, { method, body, headers: bearer(token) });
const workspacePath = () => `/api/v1/workspaces/${workspaceId}`;

describe("introspection", () => {
  test("introspection describes an app's own sessions to the app in the format of RFC 7662", async () => {
    expect(await introspect(held.appSession.token)).toEqual({
      active: true,
      token_type: "app_session",
      client_id: app.name,
      iss: base,
      aud: app.name,
      sub: person.id,
      sid: held.sid,
      scope: "profile workspaces:read workspaces:write",
      iat: expect.any(Number),
      exp: Math.floor(Date.parse(held.appSession.expiresAt) / 1000),
      name: expect.any(String),
      email: person.email,
      picture: null,
    });
    expect(await introspect(held.centralSession.token)).toMatchObject({ active: true, aud: base });
  });

  test("introspection returns only active: false for a forged token, a Supabase access token or another app's token", async () => {
    const other = await createApp({ scopes: ["profile"] });
    expect(await introspect(held.appSession.token, other)).toEqual({ active: false });
    const [header, claims] = held.appSession.token.split(".");
    const none = Buffer.from('{"alg":"none","typ":"app-session+jwt"}').toString("base64url");
    const forged = [
      `${header}.${claims}.${createHmac("sha256", "guess").update(`${header}.${claims}`).digest("base64url")}`,
      `${none}.${claims}.`,
      `${held.appSession.token}x`,
      person.accessToken,
      "x",
    ];
    for (const token of forged) expect(await introspect(token), token).toEqual({ active: false });
  });
});

describe("a central session", () => {
  test("with a central session, an app can read and rename a workspace as the session's user", async () => {
    expect(await central("GET", "/api/v1/workspaces")).toMatchObject({
      status: 200,
      body: { workspaces: [{ id: workspaceId, personal: true, role: "owner" }] },
    });
    const renamed = await central("PATCH", workspacePath(), { body: { name: "  New name " } });
    expect([renamed.status, renamed.body]).toMatchObject([200, { id: workspaceId, name: "New name" }]);
    expect((await central("GET", workspacePath())).body).toEqual(renamed.body);
    const bySession = await send(workspacePath(), { method: "GET", headers: bearer(person.accessToken) });
    expect(bySession.body).toEqual(renamed.body);
  });

  test.each([
    ["GET", "/api/v1/auth/session"],
    ["DELETE", "/api/v1/auth/cross-app-tokens"],
    ["GET", "/workspaces"],
    ["GET", "/settings/security"],
    ["GET", "/"],
  ])("a central or app session is not accepted as a user's session: %s %s returns 401", async (method, path) => {
    for (const { token } of [held.centralSession, held.appSession]) {
      const answer = await central(method, path, { token });
      expect(answer.status).toBe(401);
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
  });

  test("a central session cannot delete a workspace: the request returns 401 and the workspace remains", async () => {
    const answer = await central("DELETE", `/api/workspaces/${workspaceId}`);
    expect([answer.status, answer.body]).toMatchObject([401, { code: "UNAUTHENTICATED" }]);
    expect((await central("GET", workspacePath())).status).toBe(200);
  });

  test("a central session is not accepted by the identity backend or the Data API", async () => {
    for (const path of ["/auth/v1/user", "/auth/v1/factors", "/rest/v1/workspaces", "/rest/v1/rpc/session_state"]) {
      const response = await fetch(`${supabase.url}${path}`, {
        method: path.includes("rpc") || path.includes("factors") ? "POST" : "GET",
        headers: {
          apikey: supabase.publishableKey,
          "content-type": "application/json",
          ...bearer(held.centralSession.token),
        },
        ...(path.includes("rpc") || path.includes("factors") ? { body: "{}" } : {}),
      });
      await response.text();
      expect([401, 403], path).toContain(response.status);
    }
  });

  test("a request with an invalid central session never falls back to cookies, and an app's own session is not accepted as a central session", async () => {
    const { accessToken } = await signInAgain(person);
    const cookie = `sb-127-auth-token=base64-${Buffer.from(JSON.stringify({ access_token: accessToken })).toString("base64url")}`;
    for (const token of [
      held.appSession.token,
      `${held.centralSession.token}x`,
      held.centralSession.token.replace(/.$/, ""),
    ]) {
      const answer = await send(workspacePath(), { method: "GET", headers: { ...bearer(token), cookie } });
      expect([answer.status, answer.body]).toMatchObject([401, { code: "UNAUTHENTICATED" }]);
    }
  });

  test("a central session gets the same answer for another person's workspace and a missing one", async () => {
    const stranger = await createPerson();
    try {
      const theirs = await one<{ id: string }>(db, {
        sql: "select id from public.workspaces where personal_user_id = $1",
        values: [stranger.id],
      });
      for (const id of [theirs.id, crypto.randomUUID(), "x", "%00"]) {
        const path = `/api/v1/workspaces/${id}`;
        expect((await central("GET", path)).status, id).toBe(404);
        expect((await central("PATCH", path, { body: { name: "x" } })).status, id).toBe(404);
      }
    } finally {
      await deletePerson(stranger);
    }
  });

  test.each([
    {},
    { name: "" },
    { name: "   " },
    { name: "a".repeat(81) },
    { name: "a\0b" },
    { name: "\ud800" },
    { name: 1 },
    { name: "a", planId: "team" },
  ])("renaming a workspace with the body %j returns 400", async (body) => {
    expect((await central("PATCH", workspacePath(), { body })).status).toBe(400);
    const full = await send(workspacePath(), { method: "PATCH", body, headers: bearer(person.accessToken) });
    expect(full.status).toBe(400);
  });

  test("a central session allows only what the app's scopes permit", async () => {
    const reader = await createApp({ scopes: ["workspaces:read"] });
    const token = (await handOver(person, reader)).centralSession.token;
    expect((await central("GET", workspacePath(), { token })).status).toBe(200);
    const answer = await central("PATCH", workspacePath(), { token, body: { name: "x" } });
    expect([answer.status, answer.body]).toMatchObject([403, { code: "FORBIDDEN" }]);
    const none = await createApp({ scopes: ["profile"] });
    expect(await handOver(person, none)).not.toHaveProperty("centralSession");
  });
});

describe("the end of an app session", () => {
  const worth = async () => [
    ((await introspect(held.appSession.token)) as { active: boolean }).active,
    (await central("GET", workspacePath())).status,
  ];

  test("an app session ends when the person signs out on the web", async () => {
    expect(await worth()).toEqual([true, 200]);
    await signOut(person);
    expect(await worth()).toEqual([false, 401]);
  });

  test("an app can revoke its session together with the central session, and repeat the call without an error", async () => {
    for (let time = 0; time < 2; time += 1) {
      const answer = await asApp(app, paths.revoke, { token: held.appSession.token });
      expect([answer.status, answer.body]).toEqual([204, ""]);
    }
    expect(await worth()).toEqual([false, 401]);
    expect((await asApp(app, paths.refresh, { token: held.appSession.token })).body).toMatchObject({
      code: "REAUTH_REQUIRED",
      requiresReauth: true,
    });
  });

  test("while a required factor is unproven, an app session gets 403 MFA_REQUIRED from the central API", async () => {
    await enrollFactor(db, { userId: person.id });
    const answer = await central("GET", workspacePath());
    expect([answer.status, answer.body]).toMatchObject([403, { code: "MFA_REQUIRED" }]);
    expect(await introspect(held.appSession.token)).toEqual({ active: false });
  });

  test("an app session ends when the MFA policy invalidates earlier sessions", async () => {
    const boundary = await currentSecond(db);
    await setPolicy(db, { userId: person.id, policy: { required: true, boundary, generation: 1 } });
    expect(await worth()).toEqual([false, 401]);
  });

  test("an app session returns 503 while the MFA policy is unreadable, and works again afterwards", async () => {
    await setPolicy(db, { userId: person.id, policy: { version: 7 } });
    const answer = await central("GET", workspacePath());
    expect([answer.status, answer.body]).toMatchObject([503, { code: "AUTH_UNAVAILABLE" }]);
    for (const path of [paths.introspect, paths.refresh])
      expect((await asApp(app, path, { token: held.appSession.token })).status).toBe(503);
    await setPolicy(db, { userId: person.id, policy: null });
    expect(await worth()).toEqual([true, 200]);
  });

  test("a password step-up replaces the browser session and ends its app session", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: 610 });
    const { appSession } = await handOver({ accessToken: accessTokenOf(browser) }, app);
    expect(await introspect(appSession.token)).toMatchObject({ active: true });
    expect(await browser.post("/step-up?returnUrl=%2F", { password: person.password })).toMatchObject({
      location: "/",
    });
    expect((await browser.get("/")).status).toBe(200);
    expect(await introspect(appSession.token)).toEqual({ active: false });
    // The person's other sign-in remains active, because it did not come from this browser.
    expect(await worth()).toEqual([true, 200]);
  });

  test("a ban ends an app session permanently", async () => {
    await service.auth.admin.updateUserById(person.id, { ban_duration: "1h" });
    expect(await worth()).toEqual([false, 401]);
    await service.auth.admin.updateUserById(person.id, { ban_duration: "none" });
    expect(await worth()).toEqual([false, 401]);
  });

  test("a new password ends an app session", async () => {
    await service.auth.admin.updateUserById(person.id, { password: "another correct horse" });
    expect(await worth()).toEqual([false, 401]);
  });
});

describe("refreshing an app session", () => {
  test("refreshing an app session returns a new token for the same person, and the old one works through its grace period", async () => {
    const { status, body } = await asApp(app, paths.refresh, { token: held.appSession.token });
    expect(status).toBe(200);
    const next = body as Held["appSession"];
    expect(next).toEqual({ token: expect.any(String), expiresAt: expect.stringMatching(/Z$/) });
    expect(next.token).not.toBe(held.appSession.token);
    for (const token of [next.token, held.appSession.token])
      expect(await introspect(token)).toMatchObject({ active: true, sub: person.id });
    await db.query(
      "update private.app_sessions set previous_valid_until = now() where user_id = $1 and audience = 'app'",
      [person.id],
    );
    expect(await introspect(held.appSession.token)).toEqual({ active: false });
    expect(await introspect(next.token)).toMatchObject({ active: true });
  });

  test("concurrent refreshes of an app session all return the same token", async () => {
    const answers = await callAtOnce(() => asApp(app, paths.refresh, { token: held.centralSession.token }));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const tokens = new Set(answers.map(({ body }) => (body as Held["appSession"]).token));
    expect(tokens.size).toBe(1);
    const [token = ""] = tokens;
    expect((await central("GET", workspacePath(), { token })).status).toBe(200);
  });

  test("refreshing another app's session or an unknown token returns 401 and asks for a sign-in", async () => {
    const other = await createApp({ scopes: ["profile"] });
    for (const [by, token] of [
      [other, held.appSession.token],
      [app, "x"],
    ] as const) {
      const answer = await asApp(by, paths.refresh, { token });
      expect([answer.status, answer.body]).toMatchObject([401, { code: "REAUTH_REQUIRED", requiresReauth: true }]);
      expect(answer.headers.get("www-authenticate")).toBeNull();
    }
  });
});
