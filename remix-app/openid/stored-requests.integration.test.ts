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
  loopback,
  redeem,
  server,
  signInAt,
  type TestClient,
  userinfo,
} from "../../scripts/test/openid.ts";
import { createPerson, deletePerson, enter, insertAuthenticators, type Person } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { newAddress } from "../testing/visitor.ts";

const { base } = readStack();
let person: Person;
let browser: Browser;
let client: TestClient;

beforeAll(async () => {
  [person, client] = await Promise.all([createPerson(), createOpenidClient()]);
  browser = await enter(person);
});
afterAll(() => deletePerson(person));

/** Lengthens a request's state until its parameters have this many characters. */
async function askOfLength(length: number): Promise<Asked> {
  const { path, ...authorization } = await ask(client);
  const query = new URL(path, base).searchParams;
  const state = authorization.state + "s".repeat(length - `${query}`.length);
  query.set("state", state);
  return { ...authorization, state, path: `/oauth/authorize?${query}` };
}

/** Pushes a request (RFC 9126). @returns the unread response */
async function push(
  authorization: Asked,
  { auth = authorization.client.auth, given = {} as Record<string, string> } = {},
) {
  const parameters = new URLSearchParams({
    ...Object.fromEntries(new URL(authorization.path, base).searchParams),
    ...given,
  });
  return oauth.pushedAuthorizationRequest(server, authorization.client.client, auth, parameters, loopback);
}

/** Returns the path of a pushed request, as its client sends the person there. */
async function pushedPath(authorization: Asked, clientId = authorization.client.id): Promise<string> {
  const { request_uri } = await oauth.processPushedAuthorizationResponse(
    server,
    authorization.client.client,
    await push(authorization),
  );
  return `/oauth/authorize?${new URLSearchParams({ client_id: clientId, request_uri })}`;
}

describe("a request of a person who has to sign in", () => {
  test("may have 8,192 characters, and no redirect carries them", async () => {
    const authorization = await askOfLength(8_192);
    const visitor = openBrowser(base, { address: newAddress() });
    const { location } = await visitor.get(authorization.path);
    expect(location).toMatch(/^\/login\?returnUrl=/);
    expect(location?.length).toBeLessThan(300);
    const returnUrl = new URL(location ?? "", base).searchParams.get("returnUrl") ?? "";
    const { email, password } = person;
    expect((await visitor.post("/login", { email, password, returnUrl })).location).toBe(returnUrl);
    const address = await consent(visitor, { path: returnUrl });
    expect((await redeem(authorization, { address })).status).toBe(200);
  });

  test("is refused with more characters", async () => {
    const { path } = await askOfLength(8_193);
    const address = leadsTo(await openBrowser(base).get(path));
    expect([address?.origin, address?.searchParams.get("error")]).toEqual([
      "https://client.example",
      "invalid_request",
    ]);
  });

  test("may be posted by another site with 8,192 characters", async () => {
    const authorization = await askOfLength(8_192);
    const body = new URL(authorization.path, base).searchParams;
    const init = { method: "POST", redirect: "manual", body, headers: { origin: "https://client.example" } } as const;
    const posted = await fetch(`${base}/oauth/authorize`, init);
    const path = posted.headers.get("location") ?? "";
    expect([posted.status, path.length < 300]).toEqual([303, true]);
    const address = await consent(browser, { path });
    expect(answerAt(authorization, address).get("code")).toMatch(/^ghc_/);
    body.set("state", `${authorization.state}s`);
    const tooLong = await fetch(`${base}/oauth/authorize`, init);
    expect(tooLong.headers.get("location")).toMatch(/^https:\/\/client\.example\/callback\?error=invalid_request/);
  });

  test("shows the email that the client expects, and the client’s name", async () => {
    const { path } = await ask(await createOpenidClient({ displayName: "Ledger" }), { login_hint: "ada@example.com" });
    const visitor = openBrowser(base);
    const { text } = await visitor.get((await visitor.get(path)).location ?? "");
    expect(text).toContain("Ledger");
    expect(text).toContain("ada@example.com");
  });

  test("is answered with one code, although the person sends the form many times at once", async () => {
    const authorization = await ask(await createOpenidClient());
    const form = decisionForm((await browser.get(authorization.path)).text);
    const answers = await callAtOnce(() => browser.post(form?.action ?? "", { accountId: form?.accountId ?? "" }));
    const codes = answers.map((answer) => leadsTo(answer)?.searchParams.get("code")).filter(Boolean);
    expect(codes).toHaveLength(1);
    const again = await browser.get((form?.action ?? "").replace("/decision", ""));
    expect([again.status, again.words]).toEqual([400, expect.stringContaining("This sign-in has ended")]);
  });

  test("ends when the person cancels", async () => {
    const authorization = await ask(await createOpenidClient());
    const form = decisionForm((await browser.get(authorization.path)).text);
    const address = leadsTo(await browser.post(form?.action ?? "", { decision: "cancel" }));
    expect(address?.searchParams.get("error")).toBe("access_denied");
    expect((await browser.get((form?.action ?? "").replace("/decision", ""))).status).toBe(400);
  });
});

describe("a pushed request (RFC 9126)", () => {
  test("signs the person in, once (section 4)", async () => {
    const authorization = await ask(client, { scope: "openid email" });
    const response = await push(authorization);
    expect([response.status, response.headers.get("cache-control")]).toEqual([201, "no-store"]);
    const { request_uri, expires_in } = await response.json();
    expect(request_uri).toMatch(/^urn:ietf:params:oauth:request_uri:ghq_[A-Za-z0-9_-]{43}$/);
    expect(expires_in).toBe(600);
    const path = `/oauth/authorize?${new URLSearchParams({ client_id: client.id, request_uri })}`;
    const address = await consent(browser, { path });
    expect((await redeem(authorization, { address })).status).toBe(200);
    const again = await browser.get(path);
    expect([again.status, leadsTo(again)]).toEqual([400, null]);
  });

  test("signs in again without a page once the person has consented", async () => {
    await signInAt(browser, client);
    const authorization = await ask(client);
    const answer = await browser.get(await pushedPath(authorization));
    expect([answer.status, answerAt(authorization, leadsTo(answer) as URL).get("code")]).toEqual([
      303,
      expect.stringMatching(/^ghc_/),
    ]);
  });

  test("belongs to its client (section 4), and other parameters next to it don’t count", async () => {
    const other = await createOpenidClient();
    const authorization = await ask(client);
    expect((await browser.get(await pushedPath(authorization, other.id))).status).toBe(400);
    const path = `${await pushedPath(authorization)}&state=other&redirect_uri=https%3A%2F%2Fevil.example%2F`;
    expect(answerAt(authorization, await consent(browser, { path })).get("code")).toMatch(/^ghc_/);
  });

  test.each([
    [{ request_uri: "urn:ietf:params:oauth:request_uri:x" }, 400, "invalid_request"],
    [{ request: "e30.e30." }, 400, "request_not_supported"],
    [{ redirect_uri: "https://evil.example/" }, 400, "invalid_request"],
    [{ redirect_uri: "" }, 400, "invalid_request"],
    [{ code_challenge: "" }, 400, "invalid_request"],
    [{ response_type: "token" }, 400, "unsupported_response_type"],
    [{ state: "s".repeat(8_192) }, 413, "invalid_request"],
  ])("with %j is refused with %i %s (section 2.3)", async (given, status, error) => {
    const response = await push(await ask(client), { given });
    expect([response.status, await response.json()]).toMatchObject([status, { error }]);
  });

  test("is refused with the wrong secret, and by GET", async () => {
    const authorization = await ask(client);
    const response = await push(authorization, { auth: oauth.ClientSecretPost("wrong") });
    expect([response.status, await response.json()]).toMatchObject([401, { error: "invalid_client" }]);
    expect((await fetch(`${base}/oauth/par`)).status).toBe(405);
  });

  test.each(["urn:ietf:params:oauth:request_uri:ghq_unknown", "urn:ietf:params:oauth:request_uri:"])(
    "is unknown to the authorization endpoint as %s",
    async (request_uri) => {
      const { status } = await browser.get(
        `/oauth/authorize?${new URLSearchParams({ client_id: client.id, request_uri })}`,
      );
      expect(status).toBe(400);
    },
  );
});

describe("a client without PKCE", () => {
  test("gets the name of its own switch, or signs in if it is registered so", async () => {
    const given = { code_challenge: undefined, code_challenge_method: undefined };
    const refused = leadsTo(await browser.get((await ask(client, given)).path));
    expect(refused?.searchParams.get("error_description")).toContain("OIDC_USE_PKCE=True");
    const authorization = await ask(await createOpenidClient({ requiresPkce: false }), given);
    const address = await consent(browser, authorization);
    expect((await redeem(authorization, { address, verifier: oauth.nopkce })).status).toBe(200);
  });

  test("can’t be given the code of a request whose challenge was removed (RFC 9700 section 4.8.2)", async () => {
    const without = await createOpenidClient({ requiresPkce: false });
    const authorization = await ask(without, { code_challenge: undefined, code_challenge_method: undefined });
    const response = await redeem(authorization, { address: await consent(browser, authorization) });
    expect([response.status, await response.json()]).toMatchObject([400, { error: "invalid_grant" }]);
  });
});

describe("the claims of a login (OpenID Connect Core 1.0 section 5.5)", () => {
  test("are in the ID token and at userinfo as the request names them, after consent to them", async () => {
    const other = await createOpenidClient();
    const claims = JSON.stringify({ id_token: { email: { essential: true } }, userinfo: { name: null } });
    const { path } = await ask(other, { claims });
    expect((await browser.get(path)).words).toContain("See your name, email and picture");
    const { claims: idToken, tokens } = await signInAt(browser, other, { claims });
    expect(idToken).toMatchObject({ sub: person.id, email: person.email });
    expect(idToken).not.toHaveProperty("name");
    expect(await userinfo(other, tokens.access_token)).toEqual({ sub: person.id, name: expect.any(String) });
  });

  test("are in the ID token if the client is registered so", async () => {
    const other = await createOpenidClient({ claimsInIdToken: true });
    const { claims } = await signInAt(browser, other, { scope: "openid profile email" });
    expect(claims).toMatchObject({
      ...{ email: person.email, email_verified: true, preferred_username: person.email },
      ...{ name: expect.any(String), updated_at: expect.any(Number) },
    });
  });

  test("name the account that must be signed in (section 3.1.2.2)", async () => {
    const claims = (value: string) => JSON.stringify({ id_token: { sub: { value } } });
    await signInAt(browser, client);
    const own = await ask(client, { claims: claims(person.id), prompt: "none" });
    expect(leadsTo(await browser.get(own.path))?.searchParams.has("code")).toBe(true);
    const other = await ask(client, { claims: claims(crypto.randomUUID()) });
    expect(leadsTo(await browser.get(other.path))?.searchParams.get("error")).toBe("login_required");
  });
});

describe("acr (OpenID Connect Core 1.0 sections 3.1.2.1 and 5.5.1.1)", () => {
  const essential = (value: string) => JSON.stringify({ id_token: { acr: { essential: true, value } } });

  test("without a second factor, acr_values=aal2 signs in with aal1, and an essential aal2 is not met", async () => {
    const { claims } = await signInAt(browser, client, { acr_values: "aal2" });
    expect(claims?.acr).toBe("aal1");
    for (const prompt of [undefined, "none"]) {
      const { path } = await ask(client, { claims: essential("aal2"), prompt });
      const address = leadsTo(await browser.get(path));
      expect(address?.searchParams.get("error")).toBe("unmet_authentication_requirements");
    }
  });

  test("with a second factor, acr_values=aal2 and an essential aal2 ask for it first", async () => {
    const owner = await createPerson();
    // A code works once, so each sign-in uses an authenticator of its own.
    const apps = await insertAuthenticators(owner, ["Phone", "Tablet"]);
    for (const [nth, given] of [{ acr_values: "aal2" }, { claims: essential("aal2") }].entries()) {
      const app = apps[nth];
      const visitor = await enter(owner);
      const authorization = await ask(client, given);
      const { location } = await visitor.get(authorization.path);
      expect(location).toMatch(/^\/mfa\?returnUrl=/);
      if (app) await visitor.post(location ?? "", { code: codeOf(app), factorId: app.factorId });
      const returnUrl = new URL(location ?? "", base).searchParams.get("returnUrl") ?? "";
      const response = await redeem(authorization, { address: await consent(visitor, { path: returnUrl }) });
      const options = { expectedNonce: authorization.nonce };
      const tokens = await oauth.processAuthorizationCodeResponse(server, client.client, response, options);
      expect(oauth.getValidatedIdTokenClaims(tokens)?.acr).toBe("aal2");
    }
    await deletePerson(owner);
  });
});
