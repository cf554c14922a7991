import { afterAll, beforeAll, expect, test } from "vitest";
import { aiCredentialKind } from "#shared/ai-key.ts";
import {
  asApp,
  createApp,
  createPerson,
  mint,
  type Person,
  paths,
  service,
  signOut,
  type TestApp,
} from "../../scripts/test/apps.ts";
import { one } from "../../supabase/tests/database.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { hashToBytea } from "../apps/opaque-tokens.ts";
import { callAtOnce } from "../testing/at-once.ts";
import type { IssuedAppToken } from "./app-calls.ts";

const { db, close } = openPool(1);
let person: Person;
let app: TestApp;
let workspaceId: string;

beforeAll(async () => {
  person = await createPerson();
  const row = await one<{ id: string }>(db, {
    sql: "select id from public.workspaces where personal_user_id = $1",
    values: [person.id],
  });
  workspaceId = row.id;
  app = await createApp({ kind: "external", scopes: ["workspace:session", "ai:use"], workspaceId });
});
afterAll(async () => {
  await service.auth.admin.deleteUser(person.id);
  await close();
});

const exchange = (body: object, by = app) => asApp(by, paths.exchange, { workspaceId, ...body });
const begin = async () => (await exchange({ token: await mint(person, app) })).body as IssuedAppToken;
const known = async (accessToken: string) =>
  one<{ count: number; refused: string | null }>(db, {
    sql: "select count(*)::int as count, max(refused) as refused from ai.find_app_token($1)",
    values: [Buffer.from(hashToBytea(accessToken).slice(2), "hex")],
  });

test("a token exchange returns a gateway token that the database stores as a hash", async () => {
  const before = Date.now();
  const answer = await exchange({ token: await mint(person, app), workspaceId: workspaceId.toUpperCase() });
  expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "private, no-store"]);
  const issued = answer.body as IssuedAppToken;
  expect(issued).toEqual({
    userId: person.id,
    accessToken: expect.stringMatching(/^ttr_app_/),
    expiresAt: expect.stringMatching(/Z$/),
    refreshToken: expect.stringMatching(/^ttr_ref_[A-Za-z0-9_-]{43}$/),
    scopes: ["ai:use", "workspace:session"],
    workspaceId,
  });
  expect(aiCredentialKind(issued.accessToken)).toBe("app_token");
  expect(Math.abs(Date.parse(issued.expiresAt) - before - 3_600_000)).toBeLessThan(10_000);
  expect(await known(issued.accessToken)).toEqual({ count: 1, refused: null });
});

test("a cross-app token is exchanged only once, even by concurrent requests", async () => {
  const token = await mint(person, app);
  const answers = await callAtOnce(() => exchange({ token }));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  const late = answers.filter(({ status }) => status !== 200);
  for (const answer of late)
    expect([answer.status, answer.body]).toMatchObject([401, { code: "REAUTH_REQUIRED", requiresReauth: true }]);
});

test("refreshing an app's token never widens the scopes, and concurrent refreshes return the same next pair", async () => {
  const first = await begin();
  const narrowed = await exchange({ refreshToken: first.refreshToken, scopes: ["ai:use"] });
  expect([narrowed.status, (narrowed.body as IssuedAppToken).scopes]).toEqual([200, ["ai:use"]]);
  const { refreshToken } = narrowed.body as IssuedAppToken;
  const wide = await exchange({ refreshToken, scopes: ["ai:use", "workspace:session"] });
  expect([wide.status, wide.body]).toMatchObject([400, { code: "INVALID_REQUEST", param: "scopes" }]);

  const second = await begin();
  const refresh = () => exchange({ refreshToken: second.refreshToken });
  const answers = await callAtOnce(refresh);
  const pairs = answers.filter(({ status }) => status === 200);
  // A refresh that waits too long for a database lock gets 503. The app can retry the refresh.
  for (const { status, body } of answers) {
    if (status !== 200) expect([status, body]).toMatchObject([503, { code: "AUTH_UNAVAILABLE" }]);
  }
  expect(new Set([...pairs, await refresh()].map(({ body }) => JSON.stringify(body))).size).toBe(1);
  const next = pairs[0]?.body as unknown as IssuedAppToken;
  expect(next.accessToken).not.toBe(second.accessToken);
  expect(aiCredentialKind(next.accessToken)).toBe("app_token");
  for (const token of [second.accessToken, next.accessToken])
    expect(await known(token)).toEqual({ count: 1, refused: null });
});

test("reusing an app's refresh token after its grace period revokes everything derived from it", async () => {
  const first = await begin();
  const second = (await exchange({ refreshToken: first.refreshToken })).body as IssuedAppToken;
  await db.query(
    "update ai.app_tokens set refreshed_at = now() - interval '31 seconds' where refreshed_at is not null and user_id = $1",
    [person.id],
  );
  expect((await exchange({ refreshToken: first.refreshToken })).status).toBe(401);
  expect((await exchange({ refreshToken: second.refreshToken })).status).toBe(401);
  expect(await known(second.accessToken)).toMatchObject({ count: 0 });
});

test("a token exchange requires a registered external app and a workspace that the app is linked to", async () => {
  const internal = await createApp({ scopes: ["profile"] });
  const refused = await exchange({ token: await mint(person, internal) }, internal);
  expect([refused.status, refused.body]).toMatchObject([400, { param: "scopes" }]);
  const unlinked = await createApp({ kind: "external", scopes: ["workspace:session", "ai:use"] });
  const token = await mint(person, unlinked);
  for (const id of [workspaceId, crypto.randomUUID()]) {
    const answer = await exchange({ token, workspaceId: id }, unlinked);
    expect([answer.status, answer.body]).toMatchObject([403, { code: "FORBIDDEN" }]);
  }
});

test("an app revokes its own token by access or refresh token, and cannot revoke another app's token", async () => {
  const other = await createApp({ kind: "external", scopes: ["workspace:session", "ai:use"], workspaceId });
  const [first, second, third] = [await begin(), await begin(), await begin()];
  for (const [issued, token] of [
    [first, first.accessToken],
    [second, second.refreshToken],
  ] as const) {
    expect((await asApp(other, paths.revoke, { token })).status).toBe(204);
    expect((await asApp({ ...app, secret: "wrong" }, paths.revoke, { token })).status).toBe(401);
    expect(await known(issued.accessToken)).toEqual({ count: 1, refused: null });
    for (let time = 0; time < 2; time += 1) {
      const answer = await asApp(app, paths.revoke, { token });
      expect([answer.status, answer.body]).toEqual([204, ""]);
    }
    expect(await known(issued.accessToken)).toMatchObject({ count: 0 });
    expect((await exchange({ refreshToken: issued.refreshToken })).status).toBe(401);
  }
  expect(await known(third.accessToken)).toEqual({ count: 1, refused: null });
});

test("an app's token survives a sign-out but not a new password", async () => {
  const issued = await begin();
  await signOut(person);
  expect(await known(issued.accessToken)).toEqual({ count: 1, refused: null });
  await service.auth.admin.updateUserById(person.id, { password: "another correct horse" });
  expect(await known(issued.accessToken)).toMatchObject({ count: 0 });
  expect((await exchange({ refreshToken: issued.refreshToken })).status).toBe(401);
});

test.each([
  {},
  { token: "x", refreshToken: "y" },
  { token: 1 },
  { token: "x", workspaceId: "x" },
  { token: "x", scopes: [] },
  { token: "x", scopes: ["a\0:b"] },
  { token: "x", userId: "y" },
])("a token exchange with a body such as %j returns 400", async (body) => {
  expect((await exchange(body)).status).toBe(400);
});
