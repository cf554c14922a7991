import { createHash, randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newAccount, newEmail, sessionOf } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { admit, app, newPerson, newSubject, oauthFlow, site } from "./support/oauth-flow.ts";
import { target as server } from "./support/target.ts";

describe("disabled providers", () => {
  test.each(["discord", "x", "custom:mine", "nonsense", "constructor", ""])(
    "/authorize refuses the disabled provider %j with 400 validation_failed",
    async (name) => {
      expectRefusal(await call(`GET /authorize?provider=${name}`), 400, "validation_failed");
    },
  );
});

describe("sign-in with providers", () => {
  const { get, begin, finish, signInAs, userOf } = oauthFlow();

  describe("GET /authorize", () => {
    test("/authorize redirects to the provider with 302 and the flow's UUID as the state", async () => {
      const { answer, target, state } = await begin();
      expect(answer.status).toBe(302);
      expect(`${target.origin}${target.pathname}`).toBe(`${server.providerUrl}/keycloak/protocol/openid-connect/auth`);
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

    test("/authorize forwards added scopes and parameters to the provider, but ignores client_id, redirect_uri and response_type", async () => {
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

    test("/authorize ignores the case of the provider's name, and refuses an unknown one with 400 validation_failed", async () => {
      expect((await begin({ provider: "KeyCloak" })).answer.status).toBe(302);
      expectRefusal(await get("/authorize?provider=another"), 400, "validation_failed");
    });

    test("/authorize refuses incomplete PKCE parameters or an unknown method with 400 validation_failed", async () => {
      const half = `/authorize?provider=keycloak&code_challenge=${"x".repeat(43)}`;
      expectRefusal(await get(half), 400, "validation_failed");
      expectRefusal(await get(`${half}&code_challenge_method=md5`), 400, "validation_failed");
    });
  });

  describe("GET /callback in the implicit flow", () => {
    test("the OAuth callback redirects with the new session's and the provider's tokens in the fragment", async () => {
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

    test("a second sign-in finds the same account, even if the provider's email has changed", async () => {
      const person = newPerson();
      const first = await userOf((await signInAs(person)).fragment);
      const second = await userOf((await signInAs({ ...person, email: newEmail() })).fragment);
      expect(second.id).toBe(first.id);
      expect(second.email).toBe(first.email);
    });

    test("the OAuth callback accepts a flow only once", async () => {
      const { state } = await begin();
      const code = await admit(newPerson());
      await finish(state, { code });
      const { target, query } = await finish(state, { code });
      expect(target.origin).toBe(site);
      expect(query.error_code).toBe("bad_oauth_state");
    });

    test("the OAuth callback also accepts POST", async () => {
      const { state } = await begin();
      const rawBody = new URLSearchParams({ state, code: await admit(newPerson()) });
      const answer = await call("POST /callback", { rawBody, url: server.url });
      expect(answer.status).toBe(302);
      expect(answer.location).toContain("access_token=");
    });
  });

  describe("GET /callback with an invalid or refused flow", () => {
    test.each([
      ["", "bad_oauth_callback"],
      ["none", "bad_oauth_state"],
      [randomUUID(), "bad_oauth_state"],
    ])("the OAuth callback with state %j redirects to the site with %s in the query", async (state, code) => {
      const { target, query } = await finish(state, { code: "x" });
      expect(target.origin).toBe(site);
      expect(query).toMatchObject({ error: "invalid_request", error_code: code });
    });

    test("the OAuth callback refuses a flow after 300 seconds with bad_oauth_state", async () => {
      const { state } = await begin();
      await sql("update auth.flow_state set created_at = created_at - interval '301 s' where id = $1", [state]);
      expect((await finish(state, { code: await admit(newPerson()) })).query.error_code).toBe("bad_oauth_state");
    });

    test("the OAuth callback forwards the provider's own error in query and fragment", async () => {
      const { state } = await begin({ redirect_to: app });
      const { target, query, fragment } = await finish(state, { error: "access_denied", error_description: "No." });
      expect(`${target.origin}${target.pathname}`).toBe(app);
      expect(query).toEqual({ error: "access_denied", error_description: "No." });
      expect(fragment).toEqual({ error: "access_denied", error_description: "No.", sb: "" });
    });

    test("an OAuth callback without a code returns bad_oauth_callback", async () => {
      const { state } = await begin({ redirect_to: app });
      const { query } = await finish(state, {});
      expect(query).toMatchObject({ error: "invalid_request", error_code: "bad_oauth_callback" });
    });

    test("the OAuth callback returns server_error for a code that the provider does not know", async () => {
      const { state } = await begin({ redirect_to: app });
      const { query } = await finish(state, { code: "unknown" });
      expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
    });

    test("the OAuth callback returns server_error for a person without an email", async () => {
      const { query } = await signInAs({ sub: newSubject() });
      expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
    });

    test("the OAuth callback returns access_denied with user_banned for a banned user", async () => {
      const person = newPerson();
      const { id } = await userOf((await signInAs(person)).fragment);
      expectOk(await admin(`PUT /admin/users/${id}`, { body: { ban_duration: "1h" } }));
      const { query, fragment } = await signInAs(person);
      expect(query).toMatchObject({ error: "access_denied", error_code: "user_banned" });
      expect(fragment).not.toHaveProperty("access_token");
    });
  });

  describe("GET /callback in the PKCE flow", () => {
    const verifier = randomBytes(42).toString("base64url");
    const asked = {
      redirect_to: `${app}?keep=1`,
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "s256",
    };
    const exchange = (auth_code: string) =>
      call("POST /token?grant_type=pkce", { body: { auth_code, code_verifier: verifier }, url: server.url });

    test("the OAuth callback returns a PKCE code, whose exchange includes the provider's tokens", async () => {
      const person = newPerson();
      const { state } = await begin(asked);
      const { query, target } = await finish(state, { code: await admit(person) });
      expect(target.hash).toBe("");
      expect(query).toMatchObject({ keep: "1", code: expect.any(String) });
      const body = expectOk(await exchange(query.code ?? ""));
      expect(body).toMatchObject({ provider_token: expect.any(String), provider_refresh_token: expect.any(String) });
      expect(sessionOf(body).claims.amr).toMatchObject([{ method: "oauth" }]);
    });

    test("the OAuth callback refuses a used state with flow_state_already_used", async () => {
      const { state } = await begin(asked);
      await finish(state, { code: await admit(newPerson()) });
      const { query, target } = await finish(state, { code: await admit(newPerson()) });
      expect(target.origin).toBe(site);
      expect(query.error_code).toBe("flow_state_already_used");
    });

    test("the OAuth callback returns flow_state_already_used if the state belongs to an emailed link", async () => {
      const { id, email } = await newAccount();
      const { code_challenge, code_challenge_method } = asked;
      expectOk(await call("POST /recover", { body: { email, code_challenge, code_challenge_method } }));
      const [flow] = await sql<{ id: string }>("select id from auth.flow_state where user_id = $1", [id]);
      const { query } = await finish(flow?.id ?? "", { code: await admit(newPerson()) });
      expect(query.error_code).toBe("flow_state_already_used");
    });
  });
});
