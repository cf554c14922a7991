import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from "jose";
import * as oauth from "oauth4webapi";
import * as openid from "openid-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loopback, server } from "../../scripts/test/openid.ts";
import { query } from "../../scripts/test/people.ts";
import {
  addServiceKey,
  createServiceAccount,
  requestToken,
  type TestServiceAccount,
  tokenOfServiceAccount,
} from "../../scripts/test/service-accounts.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { newAddress } from "../testing/visitor.ts";
import { parsePublicKey } from "./assertion-key.ts";
import { assertionType } from "./client-assertion.ts";

const { base } = readStack();
const scopes = ["admin:audit:read", "admin:books"];
let account: TestServiceAccount;
let key: { privateKey: CryptoKey; kid: string };

beforeAll(async () => {
  account = await createServiceAccount({ scopes });
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  const parsed = await parsePublicKey(JSON.stringify(await exportJWK(publicKey)));
  if ("fault" in parsed) throw new Error(parsed.fault);
  await addServiceKey(account, parsed.key);
  key = { privateKey, kid: parsed.key.kid };
});
afterAll(() => query("delete from private.service_accounts where id = $1", [account.id]));

const tokenForm = /^ghs_[A-Za-z0-9_-]{43}$/;
const unknown = { status: 401, body: { error: "invalid_client" } };

/** Signs an assertion of the service account with changed claims. */
async function assert(claims: Record<string, unknown> = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1_000);
  const usual = { iss: account.clientId, sub: account.clientId, aud: base, iat: now, exp: now + 60 };
  return new SignJWT({ ...usual, jti: crypto.randomUUID(), ...claims })
    .setProtectedHeader({ alg: "ES256", kid: key.kid, typ: "client-authentication+jwt" })
    .sign(key.privateKey);
}

const withAssertion = (client_assertion: string, more: Record<string, string> = {}) => ({
  grant_type: "client_credentials",
  client_assertion_type: assertionType,
  client_assertion,
  ...more,
});

const withSecret = (more: Record<string, string> = {}) => ({
  grant_type: "client_credentials",
  client_id: account.clientId,
  client_secret: account.secret,
  ...more,
});

async function isLive(token: string): Promise<boolean> {
  const found = await query("select from private.service_tokens where token_hash = sha256($1::bytea)", [token]);
  return found.length === 1;
}

describe("the grant client_credentials", () => {
  test.each([
    ["basic", () => openid.ClientSecretBasic(account.secret)],
    ["post", () => openid.ClientSecretPost(account.secret)],
    ["private_key_jwt", () => openid.PrivateKeyJwt({ key: key.privateKey, kid: key.kid })],
  ])("gives openid-client a token for a credential sent as %s", async (_, authentication) => {
    const execute = [openid.allowInsecureRequests];
    const config = await openid.discovery(new URL(base), account.clientId, undefined, authentication(), { execute });
    const answer = await openid.clientCredentialsGrant(config, { scope: "admin:books" });
    expect(answer).toMatchObject({ access_token: expect.stringMatching(tokenForm), scope: "admin:books" });
    expect(answer.expires_in).toBe(900);
    expect(answer.refresh_token).toBeUndefined();
  });

  test.each([
    ["secret", () => oauth.ClientSecretBasic(account.secret)],
    ["key", () => oauth.PrivateKeyJwt({ key: key.privateKey, kid: key.kid })],
  ])("gives oauth4webapi a token with all scopes for a %s", async (_, authentication) => {
    const client = { client_id: account.clientId };
    const response = await oauth.clientCredentialsGrantRequest(server, client, authentication(), {}, loopback);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const answer = await oauth.processClientCredentialsResponse(server, client, response);
    expect(answer).toMatchObject({ token_type: "bearer", scope: scopes.join(" ") });
  });

  test("accepts a client assertion once, however many servers get it at the same time", async () => {
    const form = withAssertion(await assert());
    const answers = await callAtOnce(() => requestToken(form));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test.each([
    ["the token endpoint as its audience", { aud: `${base}/oauth/token` }],
    ["a lifetime of more than five minutes", { exp: Math.floor(Date.now() / 1_000) + 900 }],
    ["another client as its subject", { sub: "svc_3f2504e0-4f89-41d3-9a0c-0305e82c3301" }],
  ])("refuses an assertion with %s", async (_, claims) => {
    expect(await requestToken(withAssertion(await assert(claims)))).toMatchObject(unknown);
  });

  test("refuses an assertion with another client_id, and accepts it with the same one", async () => {
    const other = withAssertion(await assert(), { client_id: "charts" });
    expect(await requestToken(other)).toMatchObject(unknown);
    expect((await requestToken(withAssertion(await assert(), { client_id: account.clientId }))).status).toBe(200);
  });

  test.each([
    ["no type of the assertion", { client_assertion_type: "" }, "invalid_request"],
    ["another type of assertion", { client_assertion_type: "urn:example:saml" }, "invalid_request"],
    ["no assertion", { client_assertion: "" }, "invalid_request"],
    ["a second authentication", { client_secret: "x" }, "invalid_request"],
    ["an assertion that isn’t a JWT", { client_assertion: "a.b.c" }, "invalid_client"],
  ])("refuses a request with %s", async (_, more, error) => {
    expect((await requestToken(withAssertion(await assert(), more))).body.error).toBe(error);
  });

  test("refuses assertions for all other grants", async () => {
    const form = withAssertion(await assert(), { grant_type: "refresh_token", refresh_token: "ghr_x" });
    expect(await requestToken(form)).toMatchObject(unknown);
  });

  test.each([
    ["a wrong secret", { client_secret: "wrong" }],
    ["no secret", { client_secret: "" }],
    ["another client ID", { client_id: "svc_3f2504e0-4f89-41d3-9a0c-0305e82c3301" }],
    ["the ID of an OpenID client", { client_id: "charts" }],
  ])("refuses %s with one text", async (_, more) => {
    const { status, body } = await requestToken(withSecret(more));
    expect([status, body]).toEqual([
      401,
      { error: "invalid_client", error_description: "No enabled client has these credentials" },
    ]);
  });

  test("refuses a scope that the service account doesn’t have, and a resource", async () => {
    const wider = withSecret({ scope: "admin:books admin:apps:write" });
    expect((await requestToken(wider)).body.error).toBe("invalid_scope");
    expect((await requestToken(withSecret({ resource: "https://tools.example" }))).body.error).toBe("invalid_target");
  });

  test("refuses addresses that the service account doesn’t allow", async () => {
    const address = newAddress();
    const bound = await createServiceAccount({ scopes, allowedAddresses: [address] });
    const form = { grant_type: "client_credentials", client_id: bound.clientId, client_secret: bound.secret };
    expect((await requestToken(form, { address })).status).toBe(200);
    expect(await requestToken(form)).toMatchObject(unknown);
    await query("delete from private.service_accounts where id = $1", [bound.id]);
  });

  test("limits failed attempts of an address", async () => {
    const address = newAddress();
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 200 && statuses.at(-1) !== 429; attempt += 1) {
      statuses.push((await requestToken(withSecret({ client_secret: "wrong" }), { address })).status);
    }
    expect(statuses.at(-1)).toBe(429);
    expect((await requestToken(withSecret(), { address })).status).toBe(200);
  });

  test.each([
    ["basic", () => openid.ClientSecretBasic(account.secret)],
    ["post", () => openid.ClientSecretPost(account.secret)],
    ["private_key_jwt", () => openid.PrivateKeyJwt({ key: key.privateKey, kid: key.kid })],
  ])("lets openid-client revoke its token, authenticated as %s", async (_, authentication) => {
    const execute = [openid.allowInsecureRequests];
    const config = await openid.discovery(new URL(base), account.clientId, undefined, authentication(), { execute });
    const { access_token: token } = await openid.clientCredentialsGrant(config);
    expect(await isLive(token)).toBe(true);
    await openid.tokenRevocation(config, token);
    expect(await isLive(token)).toBe(false);
    await openid.tokenRevocation(config, token);
  });

  test("revokes only the service account’s own tokens, and only for its credentials", async () => {
    const [other, token] = [await createServiceAccount({ scopes }), await tokenOfServiceAccount(account)];
    const revoke = async (form: Record<string, string>) => {
      const headers = { "x-forwarded-for": newAddress() };
      const body = new URLSearchParams({ token, ...form });
      return (await fetch(`${base}/oauth/revoke`, { method: "POST", body, headers })).status;
    };
    expect(await revoke({ client_id: account.clientId })).toBe(401);
    expect(await revoke({ client_id: account.clientId, client_secret: "wrong" })).toBe(401);
    expect(await revoke({ client_assertion_type: assertionType, client_assertion: "a.b.c" })).toBe(401);
    expect(await revoke({ client_id: other.clientId, client_secret: other.secret })).toBe(200);
    expect(await isLive(token)).toBe(true);
    const used = { client_assertion_type: assertionType, client_assertion: await assert() };
    expect([await revoke(used), await revoke(used)]).toEqual([200, 401]);
    expect(await isLive(token)).toBe(false);
    await query("delete from private.service_accounts where id = $1", [other.id]);
  });

  test("discovery lists the grant, the method and its algorithms", async () => {
    const response = await fetch(`${base}/.well-known/openid-configuration`);
    const document = (await response.json()) as Record<string, string[]>;
    expect(document.grant_types_supported).toContain("client_credentials");
    expect(document.token_endpoint_auth_methods_supported).toContain("private_key_jwt");
    expect(document.token_endpoint_auth_signing_alg_values_supported).toEqual([
      ...["Ed25519", "EdDSA", "ES256", "PS256", "RS256"],
    ]);
  });
});
