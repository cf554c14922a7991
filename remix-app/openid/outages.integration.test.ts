import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { appSettings } from "../../scripts/test/keep-session.ts";
import { type Asked, answerAt, ask, consent, createOpenidClient, type TestClient } from "../../scripts/test/openid.ts";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { newAddress } from "../testing/visitor.ts";
import { startWatchedWeb, type WatchedWeb } from "../testing/watched-web.ts";

const { base, supabase } = readStack();
let web: WatchedWeb;
let person: Person;
let browser: SignedInBrowser;
let client: TestClient;

beforeAll(async () => {
  [web, person, client] = await Promise.all([
    // This server may also send the stack's pending logout notices, which must name the stack's issuer.
    startWatchedWeb(supabase, { ...appSettings(), BASE_URL: base }),
    createPerson(),
    createOpenidClient(),
  ]);
  browser = await enter(person);
});
afterEach(() => web.trouble({}));
afterAll(async () => {
  await web.stop();
  await deletePerson(person);
});

/** Posts a form as the client does. */
async function post(path: string, parameters: Record<string, string>) {
  const response = await web.fetch(path, {
    method: "POST",
    body: new URLSearchParams(parameters),
    headers: {
      authorization: `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString("base64")}`,
      "x-forwarded-for": newAddress(),
    },
  });
  return { status: response.status, headers: response.headers, body: await response.json().catch(() => null) };
}

const unreachable = (name: string) => web.trouble({ unreachable: `/rpc/${name}` });
const unavailable = { status: 503, body: { error: "temporarily_unavailable" } };

/** Signs in, consents, and returns the client's authorization code. */
async function consented(): Promise<{ asked: Asked; code: Record<string, string> }> {
  const asked = await ask(client, { scope: "openid offline_access" });
  const code = answerAt(asked, await consent(browser, asked)).get("code") ?? "";
  const { redirectUri: redirect_uri } = client;
  return { asked, code: { grant_type: "authorization_code", code, redirect_uri, code_verifier: asked.verifier } };
}

const refreshing = (refresh_token: string) => post("/oauth/token", { grant_type: "refresh_token", refresh_token });

describe("an OAuth client keeps its codes and tokens in an outage", () => {
  // Must run first, because the server caches the keys once it has read them.
  test("an authorization code that was refused because the signing keys could not be read is accepted on the next request", async () => {
    const { code } = await consented();
    await unreachable("read_signing_keys");
    expect(await post("/oauth/token", code)).toMatchObject(unavailable);
    await web.trouble({});
    expect(await post("/oauth/token", code)).toMatchObject({ status: 200, body: { id_token: expect.any(String) } });
  });

  test("a code and a refresh token survive an outage of the database", async () => {
    const { code } = await consented();
    await unreachable("redeem_authorization_code");
    expect(await post("/oauth/token", code)).toMatchObject(unavailable);
    await web.trouble({});
    const tokens = await post("/oauth/token", code);
    expect(tokens.status).toBe(200);
    await unreachable("refresh_openid_tokens");
    expect(await refreshing(tokens.body.refresh_token)).toMatchObject(unavailable);
    await web.trouble({});
    expect((await refreshing(tokens.body.refresh_token)).status).toBe(200);
  });

  test("a token refresh whose response is lost can be repeated", async () => {
    const { code } = await consented();
    const tokens = await post("/oauth/token", code);
    await web.trouble({ losesAnswer: "/rpc/refresh_openid_tokens" });
    expect(await refreshing(tokens.body.refresh_token)).toMatchObject(unavailable);
    const next = await refreshing(tokens.body.refresh_token);
    expect(next.status).toBe(200);
    expect((await refreshing(next.body.refresh_token)).status).toBe(200);
  });
});

const verifier = "v".repeat(43);
describe("OAuth endpoints answer 503 with an OAuth error if the database is unreachable (RFC 6749 section 5.2)", () => {
  test.each([
    [
      "the authorization-code exchange",
      "/oauth/token",
      "redeem_authorization_code",
      {
        grant_type: "authorization_code",
        code: "c",
        redirect_uri: "https://client.example/callback",
        code_verifier: verifier,
      },
    ],
    ["the token refresh", "/oauth/token", "refresh_openid_tokens", { grant_type: "refresh_token", refresh_token: "r" }],
    [
      "the device-code exchange",
      "/oauth/token",
      "redeem_device_code",
      { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code: "d" },
    ],
    ["introspection", "/oauth/introspect", "introspect_openid_token", { token: "t" }],
    ["revocation", "/oauth/revoke", "revoke_openid_token", { token: "t" }],
    ["device authorization", "/oauth/device_authorization", "begin_device_authorization", { scope: "openid" }],
  ])("without a database, %s answers 503 temporarily_unavailable", async (_, path, name, parameters) => {
    await unreachable(name);
    const { headers, ...answer } = await post(path, parameters);
    expect(answer).toEqual({
      status: 503,
      body: { error: "temporarily_unavailable", error_description: expect.any(String) },
    });
    expect(Object.fromEntries(headers)).toMatchObject({
      "content-type": "application/json",
      "retry-after": "5",
      "cache-control": expect.stringContaining("no-store"),
      "access-control-allow-origin": "*",
    });
  });

  test("without a database, userinfo answers 503 temporarily_unavailable", async () => {
    await unreachable("read_openid_userinfo");
    const headers = { authorization: `Bearer gho_${"a".repeat(43)}` };
    const response = await web.fetch("/oauth/userinfo", { headers });
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.json()).toMatchObject({ error: "temporarily_unavailable" });
  });
});
