import { randomBytes } from "node:crypto";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  asApp,
  bearer,
  createApp,
  createPerson,
  type Held,
  type Person,
  paths,
  send,
  service,
  type TestApp,
} from "../../scripts/test/apps.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { one } from "../../supabase/tests/database.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { startWeb, type WebProcess } from "../testing/web-process.ts";
import type { IssuedAppToken } from "./app-calls.ts";

const { supabase } = readStack();
const { db, close } = openPool(1);
const secrets = Array.from({ length: 3 }, () => randomBytes(32).toString("base64url"));
const [first = "", second = "", third = ""] = secrets;
let person: Person;
let workspaceId: string;
/**
 * Three servers: `before` has the first secret, `after` has the new secret and still accepts the first, and `without`
 * has only the new secret.
 */
let before: WebProcess;
let after: WebProcess;
let without: WebProcess;

const startBy = (secret: string, earlier?: string) =>
  startWeb(supabase.url, {
    env: {
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      APP_SESSION_SECRET: secret,
      ...(earlier ? { APP_SESSION_PREVIOUS_SECRETS: earlier } : {}),
    },
  });

beforeAll(async () => {
  person = await createPerson();
  const row = await one<{ id: string }>(db, {
    sql: "select id from public.workspaces where personal_user_id = $1",
    values: [person.id],
  });
  workspaceId = row.id;
  [before, after, without] = await Promise.all([startBy(first), startBy(second, `${third},${first}`), startBy(second)]);
});
afterAll(async () => {
  await Promise.all([before, after, without].map((web) => web.stop()));
  await service.auth.admin.deleteUser(person.id);
  await close();
});

const ask = (web: WebProcess, app: TestApp, path: string, body: object) => asApp(app, `${web.base}${path}`, body);

async function mintAt(web: WebProcess, app: TestApp): Promise<string> {
  const { body } = await send(`${web.base}${paths.mint}`, {
    body: { targetApp: app.name },
    headers: bearer(person.accessToken),
  });
  return (body as { token: string }).token;
}

test("repeating the refresh of an app session after the server's secret changed returns the same next token", async () => {
  const app = await createApp({ scopes: ["profile"] });
  const { appSession } = (await ask(before, app, paths.validate, { token: await mintAt(before, app) })).body as Held;
  const refresh = (web: WebProcess, token: string) => ask(web, app, paths.refresh, { token });
  const next = (await refresh(before, appSession.token)).body as Held["appSession"];
  const again = await refresh(after, appSession.token);
  expect(again.status).toBe(200);
  const { token } = again.body as Held["appSession"];
  expect(decodeJwt(token).jti).toBe(decodeJwt(next.token).jti);
  // From here on, both tokens are refreshed under the new secret.
  for (const held of [next.token, token]) expect((await refresh(after, held)).status).toBe(200);
  const refused = await refresh(without, appSession.token);
  expect([refused.status, refused.body]).toMatchObject([401, { code: "REAUTH_REQUIRED", requiresReauth: true }]);
});

test("repeating the refresh of an app token after the server's secret changed returns the same token pair", async () => {
  const app = await createApp({ kind: "external", scopes: ["ai:use"], workspaceId });
  const exchange = (web: WebProcess, body: object) => ask(web, app, paths.exchange, { workspaceId, ...body });
  const { refreshToken } = (await exchange(before, { token: await mintAt(before, app) })).body as IssuedAppToken;
  const { body: next } = await exchange(before, { refreshToken });
  const again = await exchange(after, { refreshToken });
  expect([again.status, again.body]).toEqual([200, next]);
  expect(await exchange(without, { refreshToken })).toMatchObject({ status: 401, body: { code: "REAUTH_REQUIRED" } });
  const other = await exchange(after, { refreshToken: (next as IssuedAppToken).refreshToken });
  expect(other.status).toBe(200);
});
