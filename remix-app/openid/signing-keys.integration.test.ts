import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createDataApi } from "@gatehousehq/local-stack/services/data-api/data-api";
import { getRequestListener } from "@hono/node-server";
import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from "jose";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type ScratchCluster, startScratchCluster } from "../../scripts/database/scratch-cluster.ts";
import { parseEnv } from "../config/env.server.ts";
import { deliverLogout } from "./deliver-logout.ts";
import { publicKeySet, signJwt, verifyOwnJwt } from "./signing-keys.ts";
import { readStoredKeys, rotateStoredKeys } from "./stored-keys.ts";

// Uses a separate database, because these tests delete signing keys that the stack's servers and other tests need.
let cluster: ScratchCluster;
let db: pg.Client;
let dataApi: { server: Server; url: string; close: () => Promise<void> };

beforeAll(async () => {
  cluster = await startScratchCluster();
  const dbUrl = await cluster.createDatabase({ migrated: true });
  db = new pg.Client(dbUrl);
  await db.connect();
  const databaseUrl = Object.assign(new URL(dbUrl), { username: "authenticator" }).href;
  const api = createDataApi({ databaseUrl, schemas: ["public", "private", "ai"] });
  const caller = { kind: "secret", claims: { role: "service_role" } } as const;
  const server = createServer(
    getRequestListener((request) => api.handle(request, { url: new URL(request.url), caller }), {
      overrideGlobalObjects: false,
    }),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  dataApi = { server, url: `http://127.0.0.1:${port}`, close: () => api.close() };
}, 60_000);
afterAll(async () => {
  dataApi.server.closeAllConnections();
  dataApi.server.close();
  await dataApi.close();
  await db.end();
  await cluster.stop();
});

const query = async <Row extends object>(sql: string, values: unknown[]): Promise<Row[]> =>
  (await db.query(sql, values)).rows as Row[];
const issuer = "https://accounts.example.test";

/**
 * Returns a request context with its own environment. Keys are cached per environment, so each context acts as a
 * separate server.
 */
function server(secret: string, ...earlier: string[]) {
  const env = parseEnv({
    NODE_ENV: "test",
    BASE_URL: issuer,
    SUPABASE_URL: dataApi.url,
    SUPABASE_PUBLISHABLE_KEY: "publishable",
    SUPABASE_SECRET_KEY: "sb_secret_of_the_server",
    APP_SESSION_SECRET: secret,
    ...(earlier.length > 0 && { APP_SESSION_PREVIOUS_SECRETS: earlier.join(",") }),
  });
  return { env, requestId: "test" };
}
const [first, second] = ["a first secret of the platform for tests", "a second secret of the platform for tests"];
const claims = { iss: issuer, sub: "s" };
const idToken = { typ: "JWT", claims } as const;
const publicKeys = async (context: ReturnType<typeof server>): Promise<JSONWebKeySet["keys"]> =>
  JSON.parse((await publicKeySet(context)).body).keys;

beforeEach(() => query("delete from private.signing_keys where true", []));
afterEach(() => {
  vi.restoreAllMocks();
});
const kids = async () =>
  (await query<{ kid: string }>("select kid from private.signing_keys order by signs_from", [])).map(({ kid }) => kid);

describe("signing keys", () => {
  test("creates exactly one signing key on concurrent first use", async () => {
    const tokens = await Promise.all(Array.from({ length: 6 }, () => signJwt(server(first), idToken)));
    const used = new Set(tokens.map((token) => decodeProtectedHeader(token).kid));
    expect([...used]).toEqual(await kids());
    expect(used.size).toBe(1);
  });

  test("verifies ID tokens and logout tokens with the published keys, and accepts each only as its own type", async () => {
    const context = server(first);
    const keys = createLocalJWKSet({ keys: await publicKeys(context) });
    const token = await signJwt(context, idToken);
    const { payload, protectedHeader } = await jwtVerify(token, keys, { issuer, typ: "JWT" });
    expect([payload.sub, protectedHeader.alg]).toEqual(["s", "RS256"]);
    expect(await verifyOwnJwt(context, token, { typ: "JWT" })).toEqual(claims);
    expect(await verifyOwnJwt(context, token, { typ: "logout+jwt" })).toBeNull();
    expect(await verifyOwnJwt(context, `${token.slice(0, -4)}AAAA`, { typ: "JWT" })).toBeNull();
    expect(await verifyOwnJwt(context, "no token", { typ: "JWT" })).toBeNull();
    const elsewhere = await signJwt(context, { typ: "JWT", claims: { ...claims, iss: "https://other.example" } });
    expect(await verifyOwnJwt(context, elsewhere, { typ: "JWT" })).toBeNull();
  });

  test("accepts an expired ID token as a hint of the account it was issued for", async () => {
    const context = server(first);
    const token = await signJwt(context, { typ: "JWT", claims: { ...claims, exp: 1 } });
    expect(await verifyOwnJwt(context, token, { typ: "JWT" })).toMatchObject({ exp: 1 });
  });

  test("rejects an ID token signed by a retired key", async () => {
    const token = await signJwt(server(first), idToken);
    await query("update private.signing_keys set signs_from = now() - interval '89 days' where true", []);
    await rotateStoredKeys(server(first));
    await query(
      "update private.signing_keys set signs_from = now() - interval '1 second' where retires_at is null",
      [],
    );
    expect(await verifyOwnJwt(server(first), token, { typ: "JWT" })).toEqual(claims);
    await query("update private.signing_keys set retires_at = now() where retires_at is not null", []);
    expect(await verifyOwnJwt(server(first), token, { typ: "JWT" })).toBeNull();
    await rotateStoredKeys(server(first));
    expect(await kids()).toHaveLength(1);
  });

  test("accepts the ID token of a 30-day-old login as a hint after its signing key was replaced", async () => {
    const token = await signJwt(server(first), idToken);
    await query("update private.signing_keys set signs_from = now() - interval '89 days' where true", []);
    await rotateStoredKeys(server(first));
    // The next key begins to sign one day after its publication. A login that begins just before then can last 30 more
    // days.
    await query(
      "update private.signing_keys set signs_from = signs_from - interval '31 days', retires_at = retires_at - interval '31 days' where true",
      [],
    );
    await rotateStoredKeys(server(first));
    expect(await verifyOwnJwt(server(first), token, { typ: "JWT" })).toEqual(claims);
  });

  test("concurrent rotations publish only one next signing key, after the current key has signed for 89 days", async () => {
    const before = decodeProtectedHeader(await signJwt(server(first), idToken)).kid;
    await query(
      "update private.signing_keys set signs_from = now() - interval '89 days' + interval '1 minute' where true",
      [],
    );
    await rotateStoredKeys(server(first));
    expect(await kids()).toEqual([before]);
    await query("update private.signing_keys set signs_from = now() - interval '89 days' where true", []);
    await Promise.all([1, 2, 3].map(() => rotateStoredKeys(server(first))));
    const [old, next] = await kids();
    expect(await kids()).toHaveLength(2);
    expect(old).toBe(before);
    expect((await publicKeys(server(first))).map(({ kid }) => kid).toSorted()).toEqual([before, next].toSorted());
    expect(decodeProtectedHeader(await signJwt(server(first), idToken)).kid).toBe(before);
    await query("update private.signing_keys set signs_from = now() where kid = $1", [next]);
    expect(decodeProtectedHeader(await signJwt(server(first), idToken)).kid).toBe(next);
  });

  test("decrypts a signing key with an earlier secret, and encrypts it again with the current one", async () => {
    const { signing } = await readStoredKeys(server(first));
    expect((await readStoredKeys(server(second, first))).signing.kid).toBe(signing.kid);
    await rotateStoredKeys(server(second, first));
    expect((await readStoredKeys(server(second))).signing.kid).toBe(signing.kid);
  });

  test("immediately replaces a signing key that none of the server's secrets can decrypt, and keeps its signatures verifiable for a day", async () => {
    const said = vi.spyOn(console, "error").mockImplementation(() => {});
    const token = await signJwt(server(first), idToken);
    const lost = decodeProtectedHeader(token).kid;
    const replaced = await Promise.all([1, 2, 3].map(() => signJwt(server(second), idToken)));
    expect(new Set(replaced.map((each) => decodeProtectedHeader(each).kid)).size).toBe(1);
    expect(said.mock.calls.flat()).toEqual([expect.stringContaining(`signing key ${lost} cannot be opened`)]);
    expect(await verifyOwnJwt(server(second), token, { typ: "JWT" })).toEqual(claims);
  });

  test("keeps at most six signing keys when servers replace each other's keys", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    for (let turn = 0; turn < 5; turn += 1) {
      await readStoredKeys(server(first));
      await readStoredKeys(server(second));
    }
    expect(await kids()).toHaveLength(6);
  });

  test("signing keys are unavailable (503) without APP_SESSION_SECRET", async () => {
    const { APP_SESSION_SECRET: _, ...env } = server(first).env;
    const refused = await publicKeySet({ env: env as never }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 503 });
  });
});

test.each([
  ["https://10.0.0.1/logout", "10.0.0.1 is a private address"],
  ["https://[fd00::1]/logout", "[fd00::1] is a private address"],
  ["https://localhost/logout", "localhost is a private address"],
  ["https://app.internal/logout", "app.internal is a private address"],
])("posts no logout token to %s, because %s", async (uri, reason) => {
  const { env } = server("a secret of at least thirty-two characters");
  const notice = { id: crypto.randomUUID(), app: "charts", uri, userId: crypto.randomUUID(), sid: crypto.randomUUID() };
  const delivery = await deliverLogout(env, { notice, signal: AbortSignal.timeout(5_000) });
  expect(delivery).toEqual({ outcome: "failed", reason });
});
