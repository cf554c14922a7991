import * as oauth from "oauth4webapi";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Asked,
  answerAt,
  ask,
  consent,
  createOpenidClient,
  decisionForm,
  leadsTo,
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
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
  type SignedInBrowser,
  tokenOf,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { codeOf } from "../testing/authenticator-app.ts";

const { base } = readStack();
let person: Person;
let browser: SignedInBrowser;
let client: TestClient;

beforeAll(async () => {
  [person, client] = await Promise.all([
    createPerson(),
    createOpenidClient({ scopes: ["profile", "workspaces:read"] }),
  ]);
  browser = await enter(person);
});
afterAll(() => deletePerson(person));

const statusOf = async (response: Response | Promise<Response>) => {
  const { status, ...rest } = await response;
  void rest;
  return status;
};

describe("an authorization code", () => {
  test("an authorization code replayed concurrently succeeds only once, and the resulting tokens are revoked (RFC 6749 4.1.2)", async () => {
    const asked = await ask(client);
    const address = await consent(browser, asked);
    const answers = await callAtOnce(async () => {
      const response = await redeem(asked, { address });
      return { status: response.status, body: await response.json() };
    });
    const redeemed = answers.filter(({ status }) => status === 200);
    expect(redeemed).toHaveLength(1);
    expect(answers.filter(({ body }) => body.error === "invalid_grant")).toHaveLength(answers.length - 1);
    expect(await userinfo(client, redeemed[0]?.body.access_token)).toBe(401);
  });

  test("refuses an authorization code from the wrong client, which leaves the code valid for the right one", async () => {
    const thief = await createOpenidClient();
    const asked = await ask(client);
    const address = await consent(browser, asked);
    const stolen = await oauth.authorizationCodeGrantRequest(
      server,
      thief.client,
      thief.auth,
      answerAt(asked, address),
      asked.client.redirectUri,
      asked.verifier,
      { [oauth.allowInsecureRequests]: true },
    );
    expect([stolen.status, await stolen.json()]).toMatchObject([400, { error: "invalid_grant" }]);
    expect((await redeem(asked, { address })).status).toBe(200);
  });

  test("refuses an authorization code with a redirect URI other than the one it was issued for", async () => {
    const both = await createOpenidClient({ redirectUris: ["https://a.example/cb", "https://b.example/cb"] });
    const asked = await ask(both);
    const address = await consent(browser, asked);
    const moved: Asked = { ...asked, client: { ...both, redirectUri: "https://b.example/cb" } };
    expect((await redeem(moved, { address })).status).toBe(400);
    expect((await redeem(asked, { address })).status).toBe(200);
  });

  test("refuses an authorization code with the PKCE verifier of another sign-in (RFC 7636)", async () => {
    const [stolen, own] = [await ask(client), await ask(client)];
    const address = await consent(browser, stolen);
    expect((await redeem(stolen, { address, verifier: own.verifier })).status).toBe(400);
    expect((await redeem(stolen, { address })).status).toBe(200);
  });
});

describe("PKCE", () => {
  test.each([
    [{ code_challenge: undefined }],
    [{ code_challenge: undefined, code_challenge_method: undefined }],
    [{ code_challenge_method: "plain" }],
    [{ code_challenge_method: undefined }],
    [{ code_challenge: "short" }],
  ])("PKCE cannot be downgraded by %j", async (given) => {
    const address = leadsTo(await browser.get((await ask(client, given)).path));
    expect(address?.searchParams.get("error")).toBe("invalid_request");
  });

  test("PKCE cannot be left out when the code is redeemed", async () => {
    const asked = await ask(client);
    const address = await consent(browser, asked);
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client.client,
      client.auth,
      answerAt(asked, address),
      client.redirectUri,
      oauth.nopkce,
      { [oauth.allowInsecureRequests]: true },
    );
    expect([response.status, await response.json()]).toMatchObject([400, { error: "invalid_grant" }]);
  });
});

describe("mix-up", () => {
  test("a client can detect a mix-up by the issuer in each answer, including errors (RFC 9207)", async () => {
    const asked = await ask(client);
    const address = await consent(browser, asked);
    const other = { ...server, issuer: "https://honest.example" };
    expect(() => oauth.validateAuthResponse(other, client.client, address, asked.state)).toThrow(/"iss"/);
    const refused = leadsTo(await browser.get((await ask(client, { response_type: "token" })).path));
    expect(refused?.searchParams.get("iss")).toBe(base);
  });
});

describe("a refresh token", () => {
  const login = () => signInAt(browser, client, { scope: "openid offline_access" });
  const passTime = (seconds: number, token: string | undefined) =>
    query(
      "update private.openid_tokens set refreshed_at = refreshed_at - make_interval(secs => $2) where refresh_hash = sha256($1::bytea)",
      [token, seconds],
    );

  test("concurrent refreshes with one refresh token all return the same new token", async () => {
    const { tokens } = await login();
    const answers = await callAtOnce(async () => (await refresh(client, tokens.refresh_token)).json());
    expect(new Set(answers.map(({ access_token, refresh_token }) => `${access_token} ${refresh_token}`)).size).toBe(1);
    expect(await userinfo(client, answers[0].access_token)).toEqual({ sub: person.id });
  });

  test.each([29, 31])(
    "reusing a refresh token after %i s revokes the login only if more than 30 s have passed (RFC 9700 4.14.2)",
    async (seconds) => {
      const { tokens } = await login();
      const next = await (await refresh(client, tokens.refresh_token)).json();
      await passTime(seconds, tokens.refresh_token);
      const again = await refresh(client, tokens.refresh_token);
      expect(again.status).toBe(seconds > 30 ? 400 : 200);
      expect(await userinfo(client, next.access_token)).toEqual(seconds > 30 ? 401 : { sub: person.id });
      expect((await refresh(client, next.refresh_token)).status).toBe(seconds > 30 ? 400 : 200);
    },
  );

  test("refuses a refresh token that was issued to another client", async () => {
    const { tokens } = await login();
    expect((await refresh(await createOpenidClient(), tokens.refresh_token)).status).toBe(400);
    expect((await refresh(client, tokens.refresh_token)).status).toBe(200);
  });

  test("refuses a refresh token as an access token, and an access token as a refresh token", async () => {
    const { tokens } = await login();
    expect((await refresh(client, tokens.access_token)).status).toBe(400);
    const response = await fetch(`${base}/oauth/userinfo`, {
      headers: { authorization: `Bearer ${tokens.refresh_token}` },
    });
    expect(response.status).toBe(401);
  });
});

describe("consent to an OpenID client", () => {
  test("another site's form can't give consent", async () => {
    const other = await createOpenidClient();
    const form = decisionForm((await browser.get((await ask(other)).path)).text);
    const response = await fetch(new URL(form?.action ?? "", base), {
      method: "POST",
      redirect: "manual",
      headers: { "sec-fetch-site": "cross-site", origin: "https://evil.example", cookie: browser.cookie() },
      body: new URLSearchParams({ accountId: person.id }),
    });
    expect(response.status).toBe(403);
  });

  test("posting the decision to the authorization endpoint can't give consent", async () => {
    const other = await createOpenidClient();
    const { path } = await ask(other);
    const answer = await browser.post(path, { accountId: person.id });
    expect(answer.location).not.toContain("code=");
    expect(decisionForm((await browser.get(path)).text)).not.toBeNull();
  });

  test("consent counts only for the account that the page named: any other account is asked again", async () => {
    const other = await createOpenidClient();
    const form = decisionForm((await browser.get((await ask(other)).path)).text);
    const answer = await browser.post(form?.action ?? "", { accountId: crypto.randomUUID() });
    expect(answer.location).toMatch(/^\/oauth\/authorize\?/);
  });

  test("consent covers the granted scopes: the page asks again for more, but not for fewer", async () => {
    const other = await createOpenidClient({ scopes: ["profile", "workspaces:read"] });
    await signInAt(browser, other, { scope: "openid profile" });
    expect(decisionForm((await browser.get((await ask(other)).path)).text)).toBeNull();
    const more = await browser.get((await ask(other, { scope: "openid workspaces:read" })).path);
    expect(more.words).toContain("See your workspaces and your role in each");
    expect(decisionForm(more.text)).not.toBeNull();
  });

  test.each(["http://127.0.0.1/callback", "com.example.app:/callback"])(
    "a public client at %s asks for consent every time (RFC 8252 8.6)",
    async (uri) => {
      const native = await createOpenidClient({ isPublic: true, redirectUris: [uri] });
      // RFC 8252 section 7.3 allows any port of the loopback address.
      const redirectUri = uri.replace("127.0.0.1", "127.0.0.1:51004");
      const asked = await ask({ ...native, redirectUri });
      expect((await redeem(asked, { address: await consent(browser, asked) })).status).toBe(200);
      expect(decisionForm((await browser.get(asked.path)).text)).not.toBeNull();
      const silent = await ask({ ...native, redirectUri }, { prompt: "none" });
      expect(leadsTo(await browser.get(silent.path))?.searchParams.get("error")).toBe("consent_required");
    },
  );

  test("refused consent leads to access_denied", async () => {
    const other = await createOpenidClient();
    const asked = await ask(other);
    const form = decisionForm((await browser.get(asked.path)).text);
    const address = leadsTo(await browser.post(form?.action ?? "", { decision: "cancel" }));
    expect(Object.fromEntries(address?.searchParams ?? [])).toMatchObject({
      error: "access_denied",
      state: asked.state,
      iss: base,
    });
  });

  test.each(["http://127.0.0.1:51004/callback", "http://127.0.0.1.evil.example/callback"])(
    "refuses a confidential client's redirect URI with another port or host: %s",
    async (redirect_uri) => {
      const web = await createOpenidClient({ redirectUris: ["http://127.0.0.1:3000/callback"] });
      expect((await browser.get((await ask(web, { redirect_uri })).path)).status).toBe(400);
    },
  );
});

describe("required MFA", () => {
  test("a pending second factor cannot be skipped: prompt=none is refused, and other requests lead to the challenge", async () => {
    const guarded = await createPerson();
    const [app] = await insertAuthenticators(guarded, ["Phone"]);
    const half = await enter(guarded);
    const silent = leadsTo(await half.get((await ask(client, { prompt: "none" })).path));
    expect(silent?.searchParams.get("error")).toBe("interaction_required");
    const asked = await ask(client);
    const { location } = await half.get(asked.path);
    expect(location).toMatch(/^\/mfa\?returnUrl=/);
    const verified = await half.post(location ?? "", {
      factorId: app?.factorId ?? "",
      code: codeOf({ secret: app?.secret ?? "" }),
    });
    const response = await redeem(asked, { address: await consent(half, { path: verified.location ?? "" }) });
    const tokens = await oauth.processAuthorizationCodeResponse(server, client.client, response, {
      expectedNonce: asked.nonce,
    });
    expect(oauth.getValidatedIdTokenClaims(tokens)).toMatchObject({ acr: "aal2", amr: ["mfa", "otp", "pwd"] });
    // The token is bound to the factor and invalid without it.
    await query("delete from auth.mfa_factors where id = $1", [app?.factorId]);
    expect(await userinfo(client, tokens.access_token)).toBe(401);
    await deletePerson(guarded);
  });

  test("revokes the tokens that were issued before MFA was required", async () => {
    const guarded = await createPerson();
    const { tokens } = await signInAt(await enter(guarded), client);
    expect(await userinfo(client, tokens.access_token)).toEqual({ sub: guarded.id });
    await requireMfa(guarded);
    expect(await userinfo(client, tokens.access_token)).toBe(401);
    await deletePerson(guarded);
  });

  test("issues no authorization code to a session whose account must replace its password", async () => {
    const careless = await createPerson();
    const restricted = await enter(careless);
    const { sessionId } = await restricted.session();
    await query("insert into private.password_replacements (session_id, user_id) values ($1, $2)", [
      sessionId,
      careless.id,
    ]);
    const silent = leadsTo(await restricted.get((await ask(client, { prompt: "none" })).path));
    expect(silent?.searchParams.get("error")).toBe("interaction_required");
    expect((await restricted.get((await ask(client)).path)).location).toMatch(/^\/reset-password\?/);
    await deletePerson(careless);
  });
});

describe("tokens", () => {
  const api = (path: string, token: string, init: RequestInit = {}) =>
    fetch(`${base}${path}`, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } });

  test("OAuth tokens are revoked when the browser session that issued them signs out", async () => {
    const leaving = await enter(person);
    const { tokens } = await signInAt(leaving, client, { scope: "openid offline_access" });
    await leaving.post("/logout", {});
    expect(await userinfo(client, tokens.access_token)).toBe(401);
    expect((await refresh(client, tokens.refresh_token)).status).toBe(400);
  });

  test("an OAuth token loses a scope that its client loses, and stops working when the client is disabled", async () => {
    const other = await createOpenidClient({ scopes: ["profile", "workspaces:read"] });
    const { tokens } = await signInAt(browser, other, { scope: "openid workspaces:read" });
    expect(await statusOf(api("/api/v1/workspaces", tokens.access_token))).toBe(200);
    await query("update private.apps set scopes = '{profile}' where name = $1", [other.id]);
    expect(await statusOf(api("/api/v1/workspaces", tokens.access_token))).toBe(403);
    await query("update private.apps set enabled = false where name = $1", [other.id]);
    expect(await userinfo(other, tokens.access_token)).toBe(401);
    expect((await browser.get((await ask(other)).path)).words).toContain("This app is turned off");
  });

  test("an OAuth token is accepted only by the routes of its scopes", async () => {
    const { tokens } = await signInAt(browser, client, { scope: "openid workspaces:read" });
    const listed = await api("/api/v1/workspaces", tokens.access_token);
    const { workspaces } = await listed.json();
    expect([listed.status, workspaces.length]).toEqual([200, 1]);
    const rename = { method: "PATCH", headers: { "content-type": "application/json" }, body: '{"name":"Mine"}' };
    expect(await statusOf(api(`/api/v1/workspaces/${workspaces[0].id}`, tokens.access_token, rename))).toBe(403);
    const { tokens: plain } = await signInAt(browser, client);
    expect(await statusOf(api("/api/v1/workspaces", plain.access_token))).toBe(403);
    for (const path of [
      "/api/v1/auth/session",
      "/api/v1/auth/accounts",
      "/api/v1/users/me/sessions",
      "/api/v1/users/me/identities",
    ])
      expect(await statusOf(api(path, tokens.access_token)), path).toBe(401);
    const { ai, supabase } = readStack();
    expect(
      await statusOf(fetch(`${ai}/v1/models`, { headers: { authorization: `Bearer ${tokens.access_token}` } })),
    ).toBe(401);
    const headers = { authorization: `Bearer ${tokens.access_token}`, apikey: supabase.publishableKey };
    expect(await statusOf(fetch(`${supabase.url}/rest/v1/profiles`, { headers }))).toBe(401);
  });

  test("OAuth tokens never contain anything from the identity backend", async () => {
    const { tokens } = await signInAt(browser, client, { scope: "openid profile email offline_access" });
    const { sessionId } = await browser.session();
    const text = JSON.stringify(tokens) + Buffer.from((tokens.id_token ?? "").split(".")[1] ?? "", "base64url");
    for (const secret of [sessionId, tokenOf(browser), person.email]) expect(text).not.toContain(secret);
  });

  test("refuses a bearer token at the authorization endpoint", async () => {
    const { path } = await ask(client);
    const response = await fetch(`${base}${path}`, {
      redirect: "manual",
      headers: { authorization: `Bearer ${tokenOf(browser)}` },
    });
    expect(response.status).toBe(403);
  });
});
