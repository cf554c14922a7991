import { createHash } from "node:crypto";
import * as oauth from "oauth4webapi";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  answerAt,
  ask,
  consent,
  createOpenidClient,
  decisionForm,
  leadsTo,
  loopback,
  redeem,
  refresh,
  server,
  signInAt,
  type TestClient,
  userinfo,
} from "../../scripts/test/openid.ts";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";

// Each test is named after a rule of the OpenID Foundation's conformance profile for Basic OPs:
// https://openid.net/specs/openid-connect-core-1_0.html and https://openid.net/certification/testing/.

const { base } = readStack();
let person: Person;
let browser: SignedInBrowser;
let client: TestClient;

beforeAll(async () => {
  [person, client] = await Promise.all([createPerson(), createOpenidClient()]);
  await query(
    "update public.profiles set display_name = 'Ada', avatar_url = 'https://img.example/a.png' where id = $1",
    [person.id],
  );
  browser = await enter(person);
});
afterAll(() => deletePerson(person));

/** Returns the error that the client receives. */
async function errorOf(given: Record<string, string | undefined>, by = browser): Promise<string | null> {
  const asked = await ask(client, given);
  const address = leadsTo(await by.get(asked.path));
  expect(address?.href.startsWith(client.redirectUri), "leads to the client").toBe(true);
  expect(address?.searchParams.get("iss")).toBe(base);
  return address?.searchParams.get("error") ?? null;
}

describe("the code response type", () => {
  test("OP-Response-code: returns a code, the state and the issuer (OIDC Core 3.1.2.5, RFC 9207)", async () => {
    const asked = await ask(client);
    const address = await consent(browser, asked);
    expect(Object.fromEntries(address.searchParams)).toEqual({
      code: expect.stringMatching(/^ghc_[A-Za-z0-9_-]{43}$/),
      state: asked.state,
      iss: base,
    });
  });

  test("OP-Response-Missing: returns an error to the client for a request without response_type (3.1.2.6)", async () => {
    expect(await errorOf({ response_type: undefined })).toBe("invalid_request");
  });

  test.each(["token", "id_token", "code id_token", "none"])(
    "OP-Response-unsupported: refuses response_type=%s (RFC 6749 4.1.2.1)",
    async (response_type) => {
      expect(await errorOf({ response_type })).toBe("unsupported_response_type");
    },
  );

  test("OP-Response-form_post: refuses an unsupported response mode", async () => {
    expect(await errorOf({ response_mode: "form_post" })).toBe("invalid_request");
  });

  test("OP-Req-POST: accepts a POST from another site, but reads the session only after a redirect (3.1.2.1)", async () => {
    const asked = await ask(client);
    const response = await fetch(`${base}/oauth/authorize`, {
      method: "POST",
      redirect: "manual",
      headers: { "sec-fetch-site": "cross-site", origin: "https://client.example" },
      body: new URL(asked.path, base).searchParams,
    });
    expect(response.status).toBe(303);
    const address = await consent(browser, { path: response.headers.get("location") ?? "" });
    expect(answerAt(asked, address).get("code")).toMatch(/^ghc_/);
  });
});

describe("the ID token", () => {
  test("OP-IDToken-RS256: the ID token has the claims of OpenID Connect Core section 2, and is signed with RS256 and a key id", async () => {
    const { tokens, claims } = await signInAt(browser, client);
    const now = Math.floor(Date.now() / 1000);
    expect(claims).toMatchObject({
      iss: base,
      sub: person.id,
      aud: client.id,
      sid: expect.any(String),
      acr: "aal1",
      amr: ["pwd"],
      at_hash: createHash("sha256").update(tokens.access_token).digest().subarray(0, 16).toString("base64url"),
    });
    expect(Math.abs((claims?.iat ?? 0) - now)).toBeLessThan(10);
    expect((claims?.exp ?? 0) - (claims?.iat ?? 0)).toBe(3600);
    expect(claims?.auth_time).toBeLessThanOrEqual(now);
    const [header = ""] = (tokens.id_token ?? "").split(".");
    expect(JSON.parse(Buffer.from(header, "base64url").toString())).toMatchObject({
      alg: "RS256",
      typ: "JWT",
      kid: expect.any(String),
    });
  });

  test("OP-nonce-code: repeats the request's nonce in the ID token (3.1.3.7)", async () => {
    const { asked, claims } = await signInAt(browser, client);
    expect(claims?.nonce).toBe(asked.nonce);
  });

  test("OP-nonce-NoReq-code: the ID token has no nonce if the request had none", async () => {
    const { claims } = await signInAt(browser, client, { nonce: undefined });
    expect(claims).not.toHaveProperty("nonce");
  });

  test.each([512, 513])("OP-nonce-length: accepts a nonce of at most 512 characters (%i)", async (length) => {
    const asked = await ask(client, { nonce: "n".repeat(length) });
    const address = await consent(browser, asked);
    expect(address.searchParams.get(length > 512 ? "error" : "code")).not.toBeNull();
  });
});

describe("the token response", () => {
  test("OP-ClientAuth-Basic-Static: returns tokens and the granted scopes, with Cache-Control: no-store (RFC 6749 5.1)", async () => {
    const asked = await ask(client, { scope: "openid profile unknown workspaces:read" });
    const response = await redeem(asked, { address: await consent(browser, asked) });
    expect(response.headers.get("cache-control")).toContain("no-store");
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    // Scopes that are unknown or not registered are dropped, and the response lists the granted scopes.
    expect(await response.json()).toEqual({
      access_token: expect.stringMatching(/^gho_[A-Za-z0-9_-]{43}$/),
      token_type: "Bearer",
      expires_in: 3600,
      scope: "openid profile",
      id_token: expect.any(String),
    });
  });

  test("OP-ClientAuth-SecretPost-Static: accepts the client secret in the body", async () => {
    const { tokens } = await signInAt(browser, { ...client, auth: oauth.ClientSecretPost(client.secret ?? "") });
    expect(tokens.access_token).toMatch(/^gho_/);
  });

  test("OP-ClientAuth-wrong: refuses a wrong secret with invalid_client and 401", async () => {
    const asked = await ask({ ...client, auth: oauth.ClientSecretBasic("wrong") });
    const response = await redeem(asked, { address: await consent(browser, asked) });
    expect([response.status, await response.json()]).toMatchObject([401, { error: "invalid_client" }]);
  });

  test("OP-OAuth-2nd and OP-OAuth-2nd-Revokes: a second use of a code is refused and revokes its tokens (RFC 6749 4.1.2)", async () => {
    const asked = await ask(client);
    const address = await consent(browser, asked);
    const first = await (await redeem(asked, { address })).json();
    expect(await userinfo(client, first.access_token)).toMatchObject({ sub: person.id });
    const second = await redeem(asked, { address });
    expect([second.status, await second.json()]).toMatchObject([400, { error: "invalid_grant" }]);
    expect(await userinfo(client, first.access_token)).toBe(401);
  });

  test.each([59, 61])(
    "OP-OAuth-code-lifetime: a code works for 60 seconds (redeemed after %i seconds)",
    async (seconds) => {
      const asked = await ask(client);
      const address = await consent(browser, asked);
      await query(
        `update private.authorization_codes
       set created_at = created_at - make_interval(secs => $2), expires_at = expires_at - make_interval(secs => $2)
       where code_hash = sha256($1::bytea)`,
        [address.searchParams.get("code"), seconds],
      );
      expect((await redeem(asked, { address })).status).toBe(seconds > 60 ? 400 : 200);
    },
  );
});

describe("the redirect URI", () => {
  test("OP-redirect_uri-NotReg: shows an error page and doesn't redirect to an unregistered URI (3.1.2.1)", async () => {
    const { path } = await ask(client, { redirect_uri: "https://evil.example/callback" });
    const answer = await browser.get(path);
    expect([answer.status, leadsTo(answer)]).toEqual([400, null]);
    expect(answer.words).toContain("isn’t registered for Charts");
  });

  test("OP-redirect_uri-Missing: shows an error page instead of redirecting", async () => {
    const { path } = await ask(client, { redirect_uri: undefined });
    expect((await browser.get(path)).status).toBe(400);
  });

  test.each([
    "https://client.example/callback?added=1",
    "https://client.example/callback/",
    "https://CLIENT.example/callback",
    "https://client.example/callback#",
    "https://client.example/callback/../callback",
    "https://client.example@evil.example/callback",
    "//client.example/callback",
  ])("OP-redirect_uri-Query-Added: compares redirect URIs as exact strings, and refuses %s", async (redirect_uri) => {
    const { path } = await ask(client, { redirect_uri });
    const answer = await browser.get(path);
    expect([answer.status, leadsTo(answer)]).toEqual([400, null]);
  });

  test("OP-redirect_uri-Query-OK: keeps the query of a registered redirect URI", async () => {
    const other = await createOpenidClient({ redirectUris: ["https://client.example/cb?tenant=7"] });
    const address = await consent(browser, await ask(other));
    expect([address.searchParams.get("tenant"), address.searchParams.get("code")]).toEqual(["7", expect.any(String)]);
  });
});

describe("the prompt parameter", () => {
  test("OP-prompt-login: asks the person to sign in again, but only once", async () => {
    const { claims } = await signInAt(browser, client);
    const asked = await ask(client, { prompt: "login" });
    const first = await browser.get(asked.path);
    expect(first.location).toMatch(/^\/step-up\?returnUrl=/);
    // Until the person confirms, opening the authorization request again leads to the step-up.
    const returnUrl = new URL(first.location ?? "", base).searchParams.get("returnUrl") ?? "";
    expect((await browser.get(returnUrl)).location).toBe(first.location);
    // The page asks for confirmation even though the sign-in is less than ten minutes old.
    expect((await browser.get(first.location ?? "")).words).toContain("Confirm it’s you");
    const confirmed = await browser.post(first.location ?? "", { password: person.password });
    expect(confirmed.location).toBe(returnUrl);
    const address = await consent(browser, { path: returnUrl });
    const response = await redeem(asked, { address });
    const tokens = await oauth.processAuthorizationCodeResponse(server, client.client, response, {
      expectedNonce: asked.nonce,
    });
    expect(oauth.getValidatedIdTokenClaims(tokens)?.auth_time).toBeGreaterThan(claims?.auth_time ?? Number.NaN);
    // The request is answered, and the new sign-in counted only for its code.
    expect((await browser.get(returnUrl)).status).toBe(400);
    expect((await browser.get(asked.path)).location).toMatch(/^\/step-up\?/);
  });

  test("OP-prompt-none-NotLoggedIn: answers login_required", async () => {
    const visitor = openBrowser(base);
    const { path } = await ask(client, { prompt: "none" });
    expect(leadsTo(await visitor.get(path))?.searchParams.get("error")).toBe("login_required");
  });

  test("OP-prompt-none-LoggedIn: answers with a code if the person has consented", async () => {
    await signInAt(browser, client);
    const asked = await ask(client, { prompt: "none" });
    const answer = await browser.get(asked.path);
    expect(answer.status).toBe(303);
    expect(answerAt(asked, leadsTo(answer) as URL).get("code")).toMatch(/^ghc_/);
  });

  test("OP-prompt-none-consent: answers consent_required for a scope that was not granted", async () => {
    const other = await createOpenidClient();
    await signInAt(browser, other);
    const { path } = await ask(other, { prompt: "none", scope: "openid email" });
    expect(leadsTo(await browser.get(path))?.searchParams.get("error")).toBe("consent_required");
  });

  test("OP-prompt-none-combined: refuses prompt=none together with another value (3.1.2.1)", async () => {
    expect(await errorOf({ prompt: "none login" })).toBe("invalid_request");
    expect(await errorOf({ prompt: "create" })).toBe("invalid_request");
  });

  test.each(["consent", "select_account", "consent select_account"])(
    "OP-prompt-%s: asks for consent even if the person has consented",
    async (prompt) => {
      await signInAt(browser, client);
      const { path } = await ask(client, { prompt });
      expect(decisionForm((await browser.get(path)).text)).not.toBeNull();
    },
  );
});

describe("request parameters", () => {
  test("OP-Req-max_age=1: asks the person to sign in again if the sign-in is more than a second old", async () => {
    const old = await signedInLongAgo(person, { secondsAgo: 5 });
    const { path } = await ask(client, { max_age: "1" });
    expect((await old.get(path)).location).toMatch(/^\/step-up\?/);
    expect(await errorOf({ max_age: "1", prompt: "none" }, old)).toBe("login_required");
  });

  test("OP-Req-max_age=10000: accepts the existing sign-in", async () => {
    await signInAt(browser, client);
    const { claims } = await signInAt(browser, client, { max_age: "10000" });
    expect(claims?.auth_time).toEqual(expect.any(Number));
  });

  test.each(["-1", "1.5", "x", "99999999999"])("OP-Req-max_age: refuses a max_age of %s", async (max_age) => {
    expect(await errorOf({ max_age })).toBe("invalid_request");
  });

  test("OP-Req-id_token_hint: answers only for the person that the hint names", async () => {
    const { tokens } = await signInAt(browser, client);
    const hinted = { id_token_hint: tokens.id_token, prompt: "none" };
    expect(leadsTo(await browser.get((await ask(client, hinted)).path))?.searchParams.has("code")).toBe(true);
    const other = await createPerson();
    expect(await errorOf(hinted, await enter(other))).toBe("login_required");
    expect(await errorOf({ id_token_hint: "a.b.c" })).toBe("invalid_request");
    await deletePerson(other);
  });

  test("OP-Req-login_hint: fills in the email on the sign-in page, which names the app", async () => {
    const visitor = openBrowser(base);
    const { path } = await ask(client, { login_hint: "ada@example.test" });
    const { location } = await visitor.get(path);
    expect(location).toMatch(/^\/login\?returnUrl=/);
    const page = await visitor.get(location ?? "");
    expect(page.text).toContain('value="ada@example.test"');
    expect(page.words).toContain("To continue to Charts.");
  });

  test("OP-Req-ui_locales, OP-Req-claims_locales, OP-display-page and OP-Req-NotUnderstood: ignores the parameters", async () => {
    const ignored = { ui_locales: "se", claims_locales: "se", display: "popup", acr_values: "1 2", extra: "foobar" };
    expect((await signInAt(browser, client, ignored)).tokens.id_token).toEqual(expect.any(String));
  });

  test.each([
    ["request", "request_not_supported"],
    ["request_uri", "request_uri_not_supported"],
    ["registration", "registration_not_supported"],
  ])("OP-%s-Unsigned: the unsupported parameter is refused with %s (OIDC Core 3.1.2.6)", async (name, error) => {
    expect(await errorOf({ [name]: "x" })).toBe(error);
  });

  test("OP-Req-repeated: refuses a parameter that is sent twice (RFC 6749 3.1)", async () => {
    const { path } = await ask(client);
    expect(leadsTo(await browser.get(`${path}&scope=email`))?.searchParams.get("error")).toBe("invalid_request");
    expect(leadsTo(await browser.get(`${path}&client_id=x`))).toBeNull();
  });

  test("OP-scope-invalid: answers invalid_scope if the request names no scope that the client may have", async () => {
    expect(await errorOf({ scope: "admin" })).toBe("invalid_scope");
    expect(await errorOf({ scope: undefined })).toBe("invalid_scope");
  });
});

describe("claims at the userinfo endpoint", () => {
  const claimsWith = async (scope: string) =>
    userinfo(client, (await signInAt(browser, client, { scope })).tokens.access_token);

  test("OP-claims-sub, OP-scope-profile, OP-scope-email and OP-scope-All: returns the claims of the granted scopes (5.4)", async () => {
    const sub = person.id;
    const profile = { name: "Ada", picture: "https://img.example/a.png", updated_at: expect.any(Number) };
    const email = { email: person.email, email_verified: true };
    expect(await claimsWith("openid")).toEqual({ sub });
    expect(await claimsWith("openid profile")).toEqual({ sub, ...profile });
    expect(await claimsWith("openid email")).toEqual({ sub, ...email });
    expect(await claimsWith("openid profile email address phone")).toEqual({
      sub,
      ...profile,
      ...email,
      preferred_username: person.email,
    });
  });

  test("OP-UserInfo-Header, OP-UserInfo-Body and OP-UserInfo-Endpoint: the userinfo endpoint accepts a token by GET, POST and form (5.3.1)", async () => {
    const { tokens } = await signInAt(browser, client);
    const url = server.userinfo_endpoint ?? "";
    const authorization = `Bearer ${tokens.access_token}`;
    const body = new URLSearchParams({ access_token: tokens.access_token });
    for (const init of [
      { headers: { authorization } },
      { method: "POST", headers: { authorization } },
      { method: "POST", body },
    ])
      expect(await (await fetch(url, init)).json()).toEqual({ sub: person.id });
    const twice = await fetch(url, { method: "POST", headers: { authorization }, body });
    expect([twice.status, await twice.json()]).toMatchObject([400, { error: "invalid_request" }]);
  });

  test("OP-UserInfo-errors: answers errors as RFC 6750 section 3 requires", async () => {
    const url = server.userinfo_endpoint ?? "";
    const none = await fetch(url);
    expect([none.status, none.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    const unknown = await fetch(url, { headers: { authorization: `Bearer gho_${"a".repeat(43)}` } });
    expect([unknown.status, unknown.headers.get("www-authenticate")]).toEqual([
      401,
      expect.stringContaining('error="invalid_token"'),
    ]);
    const preflight = await fetch(url, { method: "OPTIONS" });
    expect([preflight.status, preflight.headers.get("access-control-allow-headers")]).toEqual([
      204,
      "Authorization, Content-Type",
    ]);
    const api = await createOpenidClient({ scopes: ["workspaces:read"] });
    const { tokens } = await signInAt(browser, api, { scope: "workspaces:read", nonce: undefined });
    expect(tokens).not.toHaveProperty("id_token");
    const scope = await fetch(url, { headers: { authorization: `Bearer ${tokens.access_token}` } });
    expect([scope.status, scope.headers.get("www-authenticate")]).toEqual([
      403,
      expect.stringContaining('error="insufficient_scope"'),
    ]);
  });
});

describe("refresh tokens", () => {
  test("OP-Refresh-offline_access: a refresh returns a new refresh token (section 11) and an ID token with the same auth_time and sid (section 12.2)", async () => {
    const { tokens, claims } = await signInAt(browser, client, { scope: "openid email offline_access" });
    const response = await refresh(client, tokens.refresh_token);
    const next = await oauth.processRefreshTokenResponse(server, client.client, response);
    const { iss, sub, aud, sid, auth_time, acr, amr } = claims as oauth.IDToken;
    expect(oauth.getValidatedIdTokenClaims(next)).toMatchObject({ iss, sub, aud, sid, auth_time, acr, amr });
    expect(oauth.getValidatedIdTokenClaims(next)).not.toHaveProperty("nonce");
    expect(next.refresh_token).not.toBe(tokens.refresh_token);
  });

  test("OP-Refresh-scope: a refresh may narrow the scope of the access token, never widen it (RFC 6749 6)", async () => {
    const { tokens } = await signInAt(browser, client, { scope: "openid email offline_access" });
    const none = await refresh(client, tokens.refresh_token, " ");
    expect([none.status, await none.json()]).toMatchObject([400, { error: "invalid_scope" }]);
    const narrowed = await (await refresh(client, tokens.refresh_token, "openid openid")).json();
    expect(narrowed.scope).toBe("openid");
    expect(await userinfo(client, narrowed.access_token)).toEqual({ sub: person.id });
    const widened = await refresh(client, narrowed.refresh_token, "openid profile");
    expect([widened.status, await widened.json()]).toMatchObject([400, { error: "invalid_scope" }]);
    expect((await (await refresh(client, narrowed.refresh_token)).json()).scope).toBe("email offline_access openid");
  });
});

describe("introspection and revocation", () => {
  test("introspection describes a confidential client's own tokens (RFC 7662)", async () => {
    const { tokens, claims } = await signInAt(browser, client, { scope: "openid offline_access" });
    const describeToken = async (by: TestClient, token: string) =>
      (await oauth.introspectionRequest(server, by.client, by.auth, token, loopback)).json();
    expect(await describeToken(client, tokens.access_token)).toEqual({
      active: true,
      iss: base,
      client_id: client.id,
      sub: person.id,
      sid: claims?.sid,
      scope: "offline_access openid",
      iat: expect.any(Number),
      exp: expect.any(Number),
      token_type: "Bearer",
    });
    expect(await describeToken(client, tokens.refresh_token ?? "")).toMatchObject({ active: true, sub: person.id });
    expect(await describeToken(await createOpenidClient(), tokens.access_token)).toEqual({ active: false });
    expect(await describeToken(client, "unknown")).toEqual({ active: false });
    const spa = await createOpenidClient({ isPublic: true });
    expect(await describeToken(spa, tokens.access_token)).toMatchObject({ error: "invalid_client" });
  });

  test("revokes one access token, or the whole login of a refresh token (RFC 7009)", async () => {
    const revoke = (by: TestClient, token: string) =>
      oauth.revocationRequest(server, by.client, by.auth, token, loopback);
    const { tokens } = await signInAt(browser, client, { scope: "openid offline_access" });
    expect((await revoke(await createOpenidClient(), tokens.refresh_token ?? "")).status).toBe(200);
    expect(await userinfo(client, tokens.access_token)).toEqual({ sub: person.id });
    expect((await revoke(client, tokens.access_token)).status).toBe(200);
    expect(await userinfo(client, tokens.access_token)).toBe(401);
    const next = await (await refresh(client, tokens.refresh_token)).json();
    expect((await revoke(client, next.refresh_token)).status).toBe(200);
    expect(await userinfo(client, next.access_token)).toBe(401);
    expect((await refresh(client, next.refresh_token)).status).toBe(400);
    expect((await revoke(client, "unknown")).status).toBe(200);
  });
});
