import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { parseEnv } from "../config/env.server.ts";
import { publicKeys, signJwt, verifyOwnJwt } from "./signing-keys.ts";
import { readStoredKeys, rotateStoredKeys } from "./stored-keys.ts";

const { base, supabase } = readStack();
const issuer = "https://accounts.example.test";

/** A server of its own: another environment has another cache. */
function server(secret: string, ...earlier: string[]) {
  const env = parseEnv({
    NODE_ENV: "test",
    BASE_URL: issuer,
    SUPABASE_URL: supabase.url,
    SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
    SUPABASE_SECRET_KEY: supabase.secretKey,
    APP_SESSION_SECRET: secret,
    ...(earlier.length > 0 && { APP_SESSION_PREVIOUS_SECRETS: earlier.join(",") }),
  });
  return { env, requestId: "test" };
}
const [first, second] = ["a first secret of the platform for tests", "a second secret of the platform for tests"];
const claims = { iss: issuer, sub: "s" };
const idToken = { typ: "JWT", claims } as const;

// The stack's own keys are set aside, since its servers have another secret.
let kept: string;
beforeEach(async () => {
  const [row] = await query<{ kept: string }>(
    "select coalesce(jsonb_agg(k), '[]')::text as kept from private.signing_keys k",
    [],
  );
  kept = row?.kept ?? "[]";
  await query("delete from private.signing_keys where true", []);
});
afterEach(async () => {
  vi.restoreAllMocks();
  await query("delete from private.signing_keys where true", []);
  await query(
    "insert into private.signing_keys select * from jsonb_populate_recordset(null::private.signing_keys, $1::jsonb)",
    [kept],
  );
});
const kids = async () =>
  (await query<{ kid: string }>("select kid from private.signing_keys order by signs_from", [])).map(({ kid }) => kid);

describe("signing keys", () => {
  test("concurrent first use makes exactly one key", async () => {
    const tokens = await Promise.all(Array.from({ length: 6 }, () => signJwt(server(first), idToken)));
    const used = new Set(tokens.map((token) => decodeProtectedHeader(token).kid));
    expect([...used]).toEqual(await kids());
    expect(used.size).toBe(1);
  });

  test("the published keys verify an ID token and a logout token, each as its own type", async () => {
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

  test("an expired ID token is still a hint of who it was for", async () => {
    const context = server(first);
    const token = await signJwt(context, { typ: "JWT", claims: { ...claims, exp: 1 } });
    expect(await verifyOwnJwt(context, token, { typ: "JWT" })).toMatchObject({ exp: 1 });
  });

  test("an ID token signed by a retired key no longer verifies", async () => {
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

  test("the next key is published a day before it signs, once, and not before the 89th day", async () => {
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

  test("a key of an earlier secret still opens, and is sealed by the current one", async () => {
    const { signing } = await readStoredKeys(server(first));
    expect((await readStoredKeys(server(second, first))).signing.kid).toBe(signing.kid);
    await rotateStoredKeys(server(second, first));
    expect((await readStoredKeys(server(second))).signing.kid).toBe(signing.kid);
  });

  test("a key that no secret opens is replaced at once, and what it signed stays verifiable for a day", async () => {
    const said = vi.spyOn(console, "error").mockImplementation(() => {});
    const token = await signJwt(server(first), idToken);
    const lost = decodeProtectedHeader(token).kid;
    const replaced = await Promise.all([1, 2, 3].map(() => signJwt(server(second), idToken)));
    expect(new Set(replaced.map((each) => decodeProtectedHeader(each).kid)).size).toBe(1);
    expect(said.mock.calls.flat()).toEqual([expect.stringContaining(`signing key ${lost} cannot be opened`)]);
    expect(await verifyOwnJwt(server(second), token, { typ: "JWT" })).toEqual(claims);
  });

  test("servers that replace each other's keys leave at most six", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    for (let turn = 0; turn < 5; turn += 1) {
      await readStoredKeys(server(first));
      await readStoredKeys(server(second));
    }
    expect(await kids()).toHaveLength(6);
  });

  test("a platform without APP_SESSION_SECRET answers 503", async () => {
    const { APP_SESSION_SECRET: _, ...env } = server(first).env;
    const refused = await publicKeys({ env: env as never }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 503 });
  });
});

describe("the provider's documents", () => {
  test.each(["openid-configuration", "oauth-authorization-server"])("%s names only what is supported", async (name) => {
    const response = await fetch(`${base}/.well-known/${name}`, { headers: { origin: "https://other.example" } });
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("cache-control")).toBe("public, max-age=300");
    expect(response.headers.get("set-cookie")).toBeNull();
    expect(await response.json()).toMatchObject({
      issuer: base,
      jwks_uri: `${base}/.well-known/jwks.json`,
      response_types_supported: ["code"],
      code_challenge_methods_supported: ["S256"],
      id_token_signing_alg_values_supported: ["RS256"],
      authorization_response_iss_parameter_supported: true,
      backchannel_logout_supported: true,
      request_parameter_supported: false,
      claims_parameter_supported: false,
      request_uri_parameter_supported: false,
    });
  });

  test("the key set has public RSA keys alone", async () => {
    const response = await fetch(`${base}/.well-known/jwks.json`);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    const { keys } = (await response.json()) as { keys: object[] };
    for (const key of keys) expect(Object.keys(key).toSorted()).toEqual(["alg", "e", "kid", "kty", "n", "use"]);
    expect(keys.length).toBeGreaterThan(0);
  });

  test("a preflight is answered without a session, and other methods are refused", async () => {
    const preflight = await fetch(`${base}/.well-known/jwks.json`, { method: "OPTIONS" });
    expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, "*"]);
    expect((await fetch(`${base}/.well-known/jwks.json`, { method: "POST" })).status).toBe(405);
  });
});
