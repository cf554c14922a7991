import { createHash, randomBytes, randomInt, randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { newAccount, newEmail, newSession, password, sessionOf } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { mailsTo, nextMail } from "./support/mail.ts";
import { type Person, providerSettings, startProvider } from "./support/oauth-provider.ts";
import { describeVariant } from "./support/variant.ts";

const provider = await startProvider();
afterAll(() => provider.stop());

const site = "http://localhost:3000";
const app = "https://app.example.test/after";
const newSubject = () => String(randomInt(1, 2 ** 31));
const newPerson = (fields: Partial<Person> = {}): Person => ({ sub: newSubject(), email: newEmail(), ...fields });

describe("providers that are off", () => {
  test.each(["keycloak", "google", "nonsense", "constructor", ""])("%j: 400 validation_failed", async (name) => {
    expectRefusal(await call(`GET /authorize?provider=${name}`), 400, "validation_failed");
  });
});

describeVariant("sign-in with providers", providerSettings(provider.url), (serverUrl) => {
  const get = (path: string, options: Record<string, unknown> = {}) =>
    call(`GET ${path}`, { url: serverUrl(), ...options });

  /** Begins at /authorize. @returns where the browser is sent, and the state */
  async function begin(query: Record<string, string> = {}) {
    const answer = await get(`/authorize?${new URLSearchParams({ provider: "keycloak", ...query })}`);
    const target = new URL(answer.location);
    return { answer, target, state: target.searchParams.get("state") ?? "" };
  }

  /** Ends at /callback. @returns where the browser is sent, its query and its fragment */
  async function finish(state: string, query: Record<string, string>) {
    const answer = await get(`/callback?${new URLSearchParams({ state, ...query })}`);
    const target = new URL(answer.location);
    const fragment = Object.fromEntries(new URLSearchParams(target.hash.slice(1)));
    return { answer, target, fragment, query: Object.fromEntries(target.searchParams) };
  }

  /** The whole way, implicit. */
  async function signInAs(person: Person, query: Record<string, string> = {}) {
    const { state } = await begin({ redirect_to: app, ...query });
    return finish(state, { code: provider.admit(person) });
  }

  const userOf = async (fragment: Record<string, string>) =>
    expectOk(await get("/user", { bearer: fragment.access_token ?? "" }));

  describe("GET /authorize", () => {
    test("302 to the provider, with a state that is the flow's UUID", async () => {
      const { answer, target, state } = await begin();
      expect(answer.status).toBe(302);
      expect(`${target.origin}${target.pathname}`).toBe(`${provider.url}/keycloak/protocol/openid-connect/auth`);
      expect(Object.fromEntries(target.searchParams)).toMatchObject({
        client_id: "client",
        redirect_uri: "https://api.example.test/auth/v1/callback",
        response_type: "code",
        scope: "profile email",
      });
      expect(state).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
      expect(await sql("select provider_type from auth.flow_state where id = $1", [state])).toEqual([
        { provider_type: "keycloak" },
      ]);
    });

    test("further scopes are added, other parameters passed on, the server's own not", async () => {
      const { target } = await begin({
        scopes: "groups,roles",
        prompt: "login",
        redirect_uri: "https://evil.test",
        client_id: "evil",
        response_type: "token",
        State: "evil",
      });
      expect(target.searchParams.get("scope")).toBe("profile email groups roles");
      expect(target.searchParams.get("prompt")).toBe("login");
      expect(target.searchParams.get("client_id")).toBe("client");
      expect(target.searchParams.get("response_type")).toBe("code");
      expect(target.searchParams.get("redirect_uri")).toContain("api.example.test");
      expect(target.search).not.toContain("evil");
    });

    test("the provider's case does not matter; an unknown one is 400 validation_failed", async () => {
      expect((await begin({ provider: "KeyCloak" })).answer.status).toBe(302);
      expectRefusal(await get("/authorize?provider=google"), 400, "validation_failed");
    });

    test("half of PKCE, or a strange method: 400 validation_failed", async () => {
      const half = `/authorize?provider=keycloak&code_challenge=${"x".repeat(43)}`;
      expectRefusal(await get(half), 400, "validation_failed");
      expectRefusal(await get(`${half}&code_challenge_method=md5`), 400, "validation_failed");
    });
  });

  describe("GET /callback, implicit", () => {
    test("302 with tokens and the provider's in the fragment; the session is of method oauth", async () => {
      const person = newPerson({ name: "Ada" });
      const { answer, target, fragment } = await signInAs(person);
      expect(answer.status).toBe(302);
      expect(`${target.origin}${target.pathname}`).toBe(app);
      expect(fragment).toMatchObject({
        access_token: expect.any(String),
        refresh_token: expect.any(String),
        provider_token: expect.any(String),
        provider_refresh_token: expect.stringMatching(/^refresh-/),
        token_type: "bearer",
        sb: "",
      });
      expect(sessionOf(fragment).claims.amr).toMatchObject([{ method: "oauth" }]);
      expect(await userOf(fragment)).toMatchObject({
        email: person.email,
        email_confirmed_at: expect.any(String),
        app_metadata: { provider: "keycloak", providers: ["keycloak"] },
        user_metadata: { sub: person.sub, email: person.email, email_verified: true, full_name: "Ada" },
        identities: [{ provider: "keycloak", id: person.sub }],
      });
    });

    test("again: the same account, whatever the address is by now", async () => {
      const person = newPerson();
      const first = await userOf((await signInAs(person)).fragment);
      const second = await userOf((await signInAs({ ...person, email: newEmail() })).fragment);
      expect(second.id).toBe(first.id);
      expect(second.email).toBe(first.email);
    });

    test("the flow is good once", async () => {
      const { state } = await begin();
      const code = provider.admit(newPerson());
      await finish(state, { code });
      const { target, query } = await finish(state, { code });
      expect(target.origin).toBe(site);
      expect(query.error_code).toBe("bad_oauth_state");
    });

    test("POST does as well", async () => {
      const { state } = await begin();
      const rawBody = new URLSearchParams({ state, code: provider.admit(newPerson()) });
      const answer = await call("POST /callback", { rawBody, url: serverUrl() });
      expect(answer.status).toBe(302);
      expect(answer.location).toContain("access_token=");
    });
  });

  describe("GET /callback, refused", () => {
    test.each([
      ["", "bad_oauth_callback"],
      ["none", "bad_oauth_state"],
      [randomUUID(), "bad_oauth_state"],
    ])("state %j: to the site with %s in the query", async (state, code) => {
      const { target, query } = await finish(state, { code: "x" });
      expect(target.origin).toBe(site);
      expect(query).toMatchObject({ error: "invalid_request", error_code: code });
    });

    test("a flow of more than 300 seconds: bad_oauth_state", async () => {
      const { state } = await begin();
      await sql("update auth.flow_state set created_at = created_at - interval '301 s' where id = $1", [state]);
      expect((await finish(state, { code: provider.admit(newPerson()) })).query.error_code).toBe("bad_oauth_state");
    });

    test("the provider's own error is passed on, in query and fragment", async () => {
      const { state } = await begin({ redirect_to: app });
      const { target, query, fragment } = await finish(state, { error: "access_denied", error_description: "No." });
      expect(`${target.origin}${target.pathname}`).toBe(app);
      expect(query).toEqual({ error: "access_denied", error_description: "No." });
      expect(fragment).toEqual({ error: "access_denied", error_description: "No.", sb: "" });
    });

    test("no code: bad_oauth_callback", async () => {
      const { state } = await begin({ redirect_to: app });
      const { query } = await finish(state, {});
      expect(query).toMatchObject({ error: "invalid_request", error_code: "bad_oauth_callback" });
    });

    test("a code that the provider does not know: server_error", async () => {
      const { state } = await begin({ redirect_to: app });
      const { query } = await finish(state, { code: "unknown" });
      expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
    });

    test("someone without an address: server_error", async () => {
      const { query } = await signInAs({ sub: newSubject() });
      expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
    });

    test("banned: access_denied with user_banned", async () => {
      const person = newPerson();
      const { id } = await userOf((await signInAs(person)).fragment);
      expectOk(await admin(`PUT /admin/users/${id}`, { body: { ban_duration: "1h" } }));
      const { query, fragment } = await signInAs(person);
      expect(query).toMatchObject({ error: "access_denied", error_code: "user_banned" });
      expect(fragment).not.toHaveProperty("access_token");
    });
  });

  describe("GET /callback of a flow with a challenge", () => {
    const verifier = randomBytes(42).toString("base64url");
    const asked = {
      redirect_to: `${app}?keep=1`,
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "s256",
    };
    const exchange = (auth_code: string) =>
      call("POST /token?grant_type=pkce", { body: { auth_code, code_verifier: verifier }, url: serverUrl() });

    test("a code in the query; exchanged, the provider's tokens are in the answer", async () => {
      const person = newPerson();
      const { state } = await begin(asked);
      const { query, target } = await finish(state, { code: provider.admit(person) });
      expect(target.hash).toBe("");
      expect(query).toMatchObject({ keep: "1", code: expect.any(String) });
      const body = expectOk(await exchange(query.code ?? ""));
      expect(body).toMatchObject({ provider_token: expect.any(String), provider_refresh_token: expect.any(String) });
      expect(sessionOf(body).claims.amr).toMatchObject([{ method: "oauth" }]);
    });

    test("the state a second time: flow_state_already_used", async () => {
      const { state } = await begin(asked);
      await finish(state, { code: provider.admit(newPerson()) });
      const { query, target } = await finish(state, { code: provider.admit(newPerson()) });
      expect(target.origin).toBe(site);
      expect(query.error_code).toBe("flow_state_already_used");
    });
  });

  describe("which account it is", () => {
    test("a verified address of an account is linked to it", async () => {
      const { id, email } = await newAccount();
      const user = await userOf((await signInAs(newPerson({ email: email.toUpperCase() }))).fragment);
      expect(user.id).toBe(id);
      expect(user.app_metadata.providers).toEqual(["email", "keycloak"]);
      expectOk(await call("POST /token?grant_type=password", { body: { email, password } }));
    });

    test("an unverified address is not: a mail, and provider_email_needs_verification", async () => {
      const person = newPerson({ verified: false });
      const { query, fragment } = await signInAs(person);
      expect(query).toMatchObject({ error: "access_denied", error_code: "provider_email_needs_verification" });
      expect(fragment).not.toHaveProperty("access_token");
      const { tokenHash } = await nextMail(person.email ?? "");
      const verified = await call("POST /verify", { body: { type: "signup", token_hash: tokenHash } });
      expect(expectOk(verified).user.email).toBe(person.email);
      expect((await signInAs(person)).fragment).toHaveProperty("access_token");
    });

    test("an unverified address that an account has: nothing of that account changes, and no mail", async () => {
      const { id, email } = await newAccount();
      const { query } = await signInAs(newPerson({ email, verified: false }));
      expect(query.error_code).toBe("provider_email_needs_verification");
      const user = expectOk(await admin(`GET /admin/users/${id}`));
      expect(user.identities.map((identity: { provider: string }) => identity.provider)).toEqual(["email"]);
      expect(await mailsTo(email)).toEqual([]);
    });

    test("onto an unconfirmed account: its password and its other identities go", async () => {
      const email = newEmail();
      const { id } = expectOk(await call("POST /signup", { body: { email, password } }));
      const user = await userOf((await signInAs(newPerson({ email }))).fragment);
      expect(user).toMatchObject({ id, email_confirmed_at: expect.any(String) });
      expect(user.identities.map((identity: { provider: string }) => identity.provider)).toEqual(["keycloak"]);
      const answer = await call("POST /token?grant_type=password", { body: { email, password } });
      expectRefusal(answer, 400, "invalid_credentials");
    });
  });

  describe("other shapes", () => {
    test("GitHub: the primary address, and a number for a subject", async () => {
      const person = newPerson({ others: [newEmail()] });
      const { fragment } = await signInAs(person, { provider: "github" });
      expect(await userOf(fragment)).toMatchObject({
        email: person.email,
        identities: [{ provider: "github", id: person.sub, identity_data: { user_name: "someone" } }],
      });
    });

    test("Microsoft: who it is stands in the ID token", async () => {
      const person = newPerson();
      const { target } = await begin({ provider: "azure" });
      expect(target.pathname).toBe("/azure/oauth2/v2.0/authorize");
      expect(target.searchParams.get("scope")).toBe("openid");
      const { fragment } = await signInAs(person, { provider: "azure" });
      expect(await userOf(fragment)).toMatchObject({ email: person.email, identities: [{ provider: "azure" }] });
    });

    test("one subject at two providers is two people", async () => {
      const sub = newSubject();
      const one = await userOf((await signInAs(newPerson({ sub }))).fragment);
      const two = await userOf((await signInAs(newPerson({ sub }), { provider: "github" })).fragment);
      expect(two.id).not.toBe(one.id);
    });
  });

  describe("linking by hand", () => {
    const link = async (bearer: string, person: Person) => {
      const path = `/user/identities/authorize?provider=keycloak&skip_http_redirect=true&redirect_to=${encodeURIComponent(app)}`;
      const { url } = expectOk(await get(path, { bearer }));
      return finish(new URL(url).searchParams.get("state") ?? "", { code: provider.admit(person) });
    };

    test("200 with the address; after the callback the identity is the user's, in a new session", async () => {
      const { account, id, accessToken } = await newSession();
      const person = newPerson();
      const { fragment } = await link(accessToken, person);
      const session = sessionOf(fragment);
      expect(session.id).not.toBe(id);
      const user = await userOf(fragment);
      expect(user).toMatchObject({ id: account.id, email: account.email });
      expect(user.identities).toHaveLength(2);
      expectOk(await get("/user", { bearer: accessToken }));
    });

    test("without skip_http_redirect: 302", async () => {
      const { accessToken } = await newSession();
      const answer = await get("/user/identities/authorize?provider=keycloak", { bearer: accessToken });
      expect(answer.status).toBe(302);
    });

    test("an identity that someone has, oneself too: identity_already_exists", async () => {
      const person = newPerson();
      await signInAs(person);
      const { accessToken } = await newSession();
      const first = await link(accessToken, person);
      expect(first.query).toMatchObject({ error: "server_error", error_code: "identity_already_exists" });
      const mine = newPerson();
      await link(accessToken, mine);
      expect((await link(accessToken, mine)).query.error_code).toBe("identity_already_exists");
    });

    test("without a bearer: 401", async () => {
      expectRefusal(await get("/user/identities/authorize?provider=keycloak"), 401, "no_authorization");
    });

    const unlink = (bearer: string, id: string) => call(`DELETE /user/identities/${id}`, { bearer, url: serverUrl() });
    const identityIds = async (bearer: string): Promise<Record<string, string>> =>
      Object.fromEntries(
        expectOk(await get("/user", { bearer })).identities.map(
          ({ provider: name, identity_id }: { provider: string; identity_id: string }) => [name, identity_id],
        ),
      );

    test("unlinking: gone from the list and from providers; sessions go on", async () => {
      const { accessToken } = await newSession();
      await link(accessToken, newPerson());
      const { keycloak = "" } = await identityIds(accessToken);
      expect(expectOk(await unlink(accessToken, keycloak))).toEqual({});
      const user = expectOk(await get("/user", { bearer: accessToken }));
      expect(user.identities).toMatchObject([{ provider: "email" }]);
      expect(user.app_metadata.providers).toEqual(["email"]);
    });

    test("the last one: 422 single_identity_not_deletable", async () => {
      const { accessToken } = await newSession();
      const { email = "" } = await identityIds(accessToken);
      expectRefusal(await unlink(accessToken, email), 422, "single_identity_not_deletable");
    });

    test("one that is not there: 422 identity_not_found; no UUID: 404 validation_failed", async () => {
      const { accessToken } = await newSession();
      await link(accessToken, newPerson());
      expectRefusal(await unlink(accessToken, randomUUID()), 422, "identity_not_found");
      expectRefusal(await unlink(accessToken, "1"), 404, "validation_failed");
    });

    test("unlinking the one with the account's address gives it another's", async () => {
      const { accessToken } = await newSession();
      const person = newPerson();
      await link(accessToken, person);
      const { email = "" } = await identityIds(accessToken);
      expectOk(await unlink(accessToken, email));
      expect(expectOk(await get("/user", { bearer: accessToken })).email).toBe(person.email);
    });
  });
});

describeVariant("sign-ups off", { ...providerSettings(provider.url), GOTRUE_DISABLE_SIGNUP: "true" }, (serverUrl) => {
  test("a new person is refused: access_denied with signup_disabled; a known one is not", async () => {
    const { email } = await newAccount();
    for (const [person, expected] of [
      [newPerson(), "signup_disabled"],
      [newPerson({ email }), undefined],
    ] as const) {
      const begun = await call("GET /authorize?provider=keycloak", { url: serverUrl() });
      const state = new URL(begun.location).searchParams.get("state") ?? "";
      const query = new URLSearchParams({ state, code: provider.admit(person) });
      const { location } = await call(`GET /callback?${query}`, { url: serverUrl() });
      expect(new URL(location).searchParams.get("error_code") ?? undefined).toBe(expected);
    }
  });
});

describeVariant(
  "linking by hand off",
  { ...providerSettings(provider.url), GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: "false" },
  (serverUrl) => {
    test("404 manual_linking_disabled", async () => {
      const { accessToken } = await newSession();
      const options = { bearer: accessToken, url: serverUrl() };
      const linked = await call("GET /user/identities/authorize?provider=keycloak", options);
      expectRefusal(linked, 404, "manual_linking_disabled");
      expectRefusal(await call(`DELETE /user/identities/${randomUUID()}`, options), 404, "manual_linking_disabled");
    });
  },
);
