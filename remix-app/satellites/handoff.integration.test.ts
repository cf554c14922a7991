import { decodeJwt, decodeProtectedHeader } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  asApp,
  bearer,
  createApp,
  createPerson,
  type Held,
  handOver,
  mint,
  type Person,
  paths,
  send,
  service,
  signInAgain,
  signOut,
  type TestApp,
} from "../../scripts/test/apps.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { basicAuthorization } from "../http/authorization.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { newAddress } from "../testing/visitor.ts";

const { base } = readStack();
const { db, close } = openPool(2);
const scopes = ["profile", "workspaces:read", "workspaces:write"];
let person: Person;
let app: TestApp;

beforeAll(async () => {
  [person, app] = await Promise.all([createPerson(), createApp({ scopes })]);
});
afterAll(async () => {
  await service.auth.admin.deleteUser(person.id);
  await close();
});

const mintWith = (body: unknown, headers: Record<string, string> = bearer(person.accessToken)) =>
  send(paths.mint, { body, headers });

describe("minting a handoff token", () => {
  test("minting a handoff token returns the token with its expiry", async () => {
    const before = Date.now();
    const { status, body, headers } = await mintWith({ targetApp: app.name });
    expect([status, headers.get("cache-control")]).toEqual([201, "private, no-store"]);
    const { token, expiresAt } = body as { token: string; expiresAt: string };
    expect(token).toMatch(/^xat_[A-Za-z0-9_-]{43}$/);
    expect(expiresAt).toMatch(/Z$/);
    expect(Math.abs(Date.parse(expiresAt) - before - 300_000)).toBeLessThan(10_000);
  });

  test.each([1, 300])("minting a handoff token accepts an expiry of %i s", async (expirySeconds) => {
    expect((await mintWith({ targetApp: app.name, expirySeconds })).status).toBe(201);
  });

  test.each([0, -1, 301, 1_000_000_000, 1.5, "60", null])(
    "minting a handoff token rejects an expiry of %j",
    async (expirySeconds) => {
      const answer = await mintWith({ targetApp: app.name, expirySeconds });
      expect([answer.status, answer.body]).toMatchObject([400, { code: "INVALID_REQUEST", param: "expirySeconds" }]);
    },
  );

  test.each(["no-such-app", "", "web", "A".repeat(200), "../x"])(
    "minting a handoff token answers 404 for the unknown target %j",
    async (targetApp) => {
      expect((await mintWith({ targetApp })).status).toBe(404);
    },
  );

  test.each(["a\0b", "\ud800"])(
    "minting a handoff token answers 400 for the unstorable target %j",
    async (targetApp) => {
      expect((await mintWith({ targetApp })).status).toBe(400);
    },
  );

  test("minting a handoff token rejects fields that name a user or an origin", async () => {
    for (const extra of [{ userId: crypto.randomUUID() }, { originApp: "notes" }])
      expect((await mintWith({ targetApp: app.name, ...extra })).status).toBe(400);
  });

  test("minting a handoff token requires a full session and refuses anonymous callers, apps' servers, app sessions and other sites", async () => {
    const held = await handOver(person, app);
    const body = { targetApp: app.name };
    expect((await mintWith(body, { "sec-fetch-site": "same-origin" })).status).toBe(401);
    expect((await mintWith(body, {})).status).toBe(403);
    expect((await asApp(app, paths.mint, body)).status).toBe(401);
    for (const { token } of [held.appSession, held.centralSession])
      expect((await mintWith(body, bearer(token))).status).toBe(401);
  });
});

describe("validating a handoff token", () => {
  test("validating a handoff token opens an app session and a central session, and returns no identity backend token", async () => {
    const answer = await asApp(app, paths.validate, { token: await mint(person, app) });
    expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "private, no-store"]);
    const held = answer.body as Held;
    expect(held).toEqual({
      userId: person.id,
      sid: expect.any(String),
      appSession: { token: expect.any(String), expiresAt: expect.stringMatching(/Z$/) },
      centralSession: { token: expect.any(String), expiresAt: expect.stringMatching(/Z$/) },
    });
    for (const [{ token }, aud] of [
      [held.appSession, app.name],
      [held.centralSession, base],
    ] as const) {
      expect(decodeProtectedHeader(token)).toEqual({ alg: "HS256", typ: "app-session+jwt", kid: expect.any(String) });
      expect(decodeJwt(token)).toMatchObject({ iss: base, aud, client_id: app.name, sub: person.id });
      expect(JSON.stringify(decodeJwt(token))).not.toMatch(/session_id|amr|refresh|@/);
    }
    expect(Date.parse(held.appSession.expiresAt) - Date.now()).toBeGreaterThan(7.9 * 3_600_000);
  });

  test("of 50 concurrent validations of a handoff token, one succeeds and the others return null", async () => {
    const token = await mint(person, app);
    const answers = await callAtOnce(() => asApp(app, paths.validate, { token }), { times: 50 });
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(answers.filter(({ body }) => body !== null)).toHaveLength(1);
  });

  test("validating returns null for a handoff token that is used, unknown, malformed or for another app", async () => {
    const other = await createApp({ scopes });
    const used = await mint(person, app);
    await asApp(app, paths.validate, { token: used });
    const foreign = await mint(person, other);
    const unknown = `xat_${"a".repeat(43)}`;
    for (const token of [used, foreign, unknown, "", "x", "é", person.accessToken])
      expect(await asApp(app, paths.validate, { token }), token).toMatchObject({ status: 200, body: null });
    expect((await asApp(other, paths.validate, { token: foreign })).body).toMatchObject({ userId: person.id });
  });

  test("validating a handoff token returns null after revocation, sign-out, or the removal of the session's second factor", async () => {
    const revoked = [await mint(person, app), await mint(person, app)];
    const revoke = await send(paths.mint, { method: "DELETE", headers: bearer(person.accessToken) });
    expect([revoke.status, (revoke.body as { revoked: number }).revoked]).toEqual([200, expect.any(Number)]);
    expect((revoke.body as { revoked: number }).revoked).toBeGreaterThanOrEqual(2);
    for (const token of revoked) expect((await asApp(app, paths.validate, { token })).body).toBeNull();
    const again = await send(paths.mint, { method: "DELETE", headers: bearer(person.accessToken) });
    expect(again.body).toEqual({ revoked: 0 });

    const session = await signInAgain(person);
    const late = await mint(session, app);
    await signOut(session);
    expect((await asApp(app, paths.validate, { token: late })).body).toBeNull();
  });

  test("a handoff token whose row was tampered with is not redeemed", async () => {
    const victim = await createPerson();
    try {
      const token = await mint(person, app);
      const [row] = await db.query<{ proof: string }>(
        "select proof from private.cross_app_tokens where user_id = $1 order by created_at desc limit 1",
        [person.id],
      );
      const rewrite = (sql: string, values: unknown[] = []) =>
        db.query(`update private.cross_app_tokens set ${sql} where proof = $1`, [row?.proof, ...values]);
      const parts = (row?.proof ?? "").split(".");
      const claims = decodeJwt(row?.proof ?? "");
      const forgedClaims = Buffer.from(JSON.stringify({ ...claims, user: victim.id })).toString("base64url");
      const unsigned = Buffer.from('{"alg":"none","typ":"mfa-proof+jwt"}').toString("base64url");
      await rewrite("user_id = $2", [victim.id]);
      expect((await asApp(app, paths.validate, { token })).body).toBeNull();
      for (const proof of [`${parts[0]}.${forgedClaims}.${parts[2]}`, `${unsigned}.${forgedClaims}.`, "x"]) {
        await db.query(
          "update private.cross_app_tokens set proof = $1, user_id = $2 where user_id = $2 or proof = $3",
          [proof, victim.id, row?.proof],
        );
        expect((await asApp(app, paths.validate, { token })).body).toBeNull();
      }
    } finally {
      await service.auth.admin.deleteUser(victim.id);
    }
  });

  test("previewing a handoff token shows name and email only to an app with the profile scope, and does not redeem the token", async () => {
    const token = await mint(person, app);
    const preview = () => asApp(app, paths.validate, { token, preview: true });
    expect((await preview()).body).toEqual({ userId: person.id, name: expect.any(String), email: person.email });
    expect((await preview()).body).toMatchObject({ userId: person.id });
    const discreet = await createApp({ scopes: ["workspaces:read"] });
    const theirs = await mint(person, discreet);
    expect((await asApp(discreet, paths.validate, { token: theirs, preview: true })).body).toEqual({
      userId: person.id,
      name: null,
      email: null,
    });
    expect((await asApp(app, paths.validate, { token })).body).toMatchObject({ userId: person.id });
    expect((await preview()).body).toBeNull();
  });
});

describe("handoff requests from an app's server", () => {
  const serverPaths = [paths.validate, paths.introspect, paths.refresh, paths.revoke, paths.exchange];
  const bodyOf = (path: string) => ({
    token: "x",
    ...(path === paths.exchange ? { workspaceId: crypto.randomUUID() } : {}),
  });

  test.each(serverPaths)(
    "%s: an app's server gets the same answer with a wrong secret, an unknown name or a disabled app",
    async (path) => {
      const disabled = await createApp({ scopes });
      const off = { app_name: disabled.name, enabled: false, reason: "test" };
      await service.schema("private").rpc("set_app_enabled", off);
      const answers = await Promise.all(
        [{ ...app, secret: "wrong" }, { ...app, name: "no-such-app" }, disabled].map((one) =>
          asApp(one, path, bodyOf(path)),
        ),
      );
      for (const { status, headers, body } of answers) {
        expect(status).toBe(401);
        expect(headers.get("www-authenticate")).toBe('Basic realm="apps", charset="UTF-8"');
        expect({ ...(body as object), requestId: "" }).toEqual({
          ...(answers[0]?.body as unknown as object),
          requestId: "",
        });
      }
    },
  );

  test.each(serverPaths)("%s: accepts only Basic credentials and refuses a person's session", async (path) => {
    const attempts: Record<string, string>[] = [
      {},
      bearer(person.accessToken),
      { authorization: "Basic" },
      { authorization: "Basic !!" },
      { authorization: `Basic ${Buffer.from("nocolon").toString("base64")}` },
    ];
    for (const headers of attempts) {
      const answer = await send(path, { body: bodyOf(path), headers });
      expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, expect.stringMatching(/^Basic /)]);
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
  });

  test.each(serverPaths)("%s: refuses requests from browsers", async (path) => {
    const authorization = `Basic ${Buffer.from(`${app.name}:${app.secret}`).toString("base64")}`;
    const sites: [string, string][] = [
      ["sec-fetch-site", "cross-site"],
      ["sec-fetch-site", "same-site"],
      ["origin", "https://evil.example"],
    ];
    for (const [name, value] of sites) {
      const answer = await send(path, { body: bodyOf(path), headers: { authorization, [name]: value } });
      expect([answer.status, answer.body]).toMatchObject([403, { code: "CSRF_REJECTED" }]);
    }
  });

  test.each(serverPaths)("%s: verifies the credentials before it reports an invalid body", async (path) => {
    const bodies = [
      ["{}", "text/plain", 415],
      ["{", "application/json", 400],
      ["{}", "application/json", 400],
    ] as const;
    for (const [body, type, status] of bodies) {
      const post = (secret: string) =>
        send(path, { body, headers: { authorization: basicAuthorization({ ...app, secret }), "content-type": type } });
      const refused = await post("wrong");
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([
        401,
        expect.stringMatching(/^Basic /),
      ]);
      expect((await post(app.secret)).status).toBe(status);
    }
  });

  test("an app's server must send JSON of the right shape and size", async () => {
    const authorization = `Basic ${Buffer.from(`${app.name}:${app.secret}`).toString("base64")}`;
    const post = (body: string, type: string) =>
      send(paths.validate, { body, headers: { authorization, "content-type": type } });
    expect((await post('{"token":"x"}', "text/plain")).status).toBe(415);
    for (const body of ["{", '{"token":1}', '{"token":"x","more":1}', "[]", "null", `{"token":"${"x".repeat(8193)}"}`])
      expect((await post(body, "application/json")).status, body).toBe(400);
    expect((await post("a".repeat(65_537), "application/json")).status).toBe(413);
    expect((await send(paths.validate, { method: "GET", headers: { authorization } })).status).toBe(405);
  });

  test("an app's server may send a wrong secret 60 times in ten minutes, and always succeeds with the right one", async () => {
    const headers = { "x-forwarded-for": newAddress() };
    const attempt = (secret: string) =>
      send(paths.introspect, {
        body: { token: "x" },
        headers: { ...headers, authorization: `Basic ${Buffer.from(`${app.name}:${secret}`).toString("base64")}` },
      });
    const answers = [];
    for (let index = 0; index < 60; index += 1) answers.push((await attempt("wrong")).status);
    expect(new Set(answers)).toEqual(new Set([401]));
    const late = await attempt("wrong");
    expect([late.status, Number(late.headers.get("retry-after"))]).toEqual([429, expect.any(Number)]);
    expect((await attempt(app.secret)).body).toEqual({ active: false });
  });
});
