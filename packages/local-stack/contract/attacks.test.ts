import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newAccount, newSession, password, refresh, sessionOf, signIn } from "./support/accounts.ts";
import { Authenticator } from "./support/authenticator.ts";
import { sql } from "./support/database.ts";
import { call, expectOk, expectRefusal } from "./support/http.ts";
import { nextMail } from "./support/mail.ts";
import { admit, app, newPerson, newSubject, oauthFlow, site } from "./support/oauth-flow.ts";
import { creationOptions, finishRegistration, finishSignIn, newPasskey, requestOptions } from "./support/passkeys.ts";
import { challenge, codeOf, enroll, newRaisedSession, verifyCode } from "./support/totp.ts";

const { get, begin, finish, signInAs, userOf } = oauthFlow();

const sessionsOf = async (userId: string) =>
  (await sql<{ id: string }>("select id from auth.sessions where user_id = $1 order by created_at", [userId])).map(
    ({ id }) => id,
  );
const newVerifier = () => randomBytes(42).toString("base64url");
const challengeOf = (verifier: string) => ({
  code_challenge: createHash("sha256").update(verifier).digest("base64url"),
  code_challenge_method: "s256",
});
const exchange = (auth_code: string, code_verifier: string) =>
  call("POST /token?grant_type=pkce", { body: { auth_code, code_verifier } });

describe("a passkey challenge issued to someone else", () => {
  test("a passkey challenge cannot register a passkey in another user's session, and stays valid in its owner's session", async () => {
    const [owner, stranger] = [await newSession(), await newSession()];
    const { challenge_id, options } = await creationOptions(owner.accessToken);
    const credential = new Authenticator().create(options);
    const answer = await finishRegistration(stranger.accessToken, { challenge_id, credential });
    expectRefusal(answer, 400, "webauthn_challenge_not_found");
    expect(expectOk(await call("GET /passkeys", { bearer: stranger.accessToken }))).toEqual([]);
    expectOk(await finishRegistration(owner.accessToken, { challenge_id, credential }));
  });

  test("refuses to register a credential that was created for another user's challenge", async () => {
    const [owner, stranger] = [await newSession(), await newSession()];
    const theirs = await creationOptions(owner.accessToken);
    const { challenge_id } = await creationOptions(stranger.accessToken);
    const credential = new Authenticator().create(theirs.options);
    const answer = await finishRegistration(stranger.accessToken, { challenge_id, credential });
    expectRefusal(answer, 400, "webauthn_verification_failed");
  });

  test("a sign-in challenge cannot register a passkey, and stays valid for the sign-in", async () => {
    const { accessToken, authenticator } = await newPasskey();
    const { challenge_id, options } = await requestOptions();
    const { user } = (await creationOptions(accessToken)).options;
    const credential = new Authenticator().create({ ...options, user });
    const answer = await finishRegistration(accessToken, { challenge_id, credential });
    expectRefusal(answer, 400, "webauthn_challenge_not_found");
    expectOk(await finishSignIn({ challenge_id, credential: authenticator.get(options) }));
  });

  test("a registration challenge cannot sign in, and stays valid for the registration", async () => {
    const { accessToken, authenticator } = await newPasskey();
    const { challenge_id, options } = await creationOptions(accessToken);
    const signed = await finishSignIn({ challenge_id, credential: authenticator.get(options) });
    expectRefusal(signed, 400, "webauthn_challenge_not_found");
    const credential = new Authenticator().create(options);
    expectOk(await finishRegistration(accessToken, { challenge_id, credential }));
  });

  test("refuses a passkey assertion that was signed over another challenge", async () => {
    const { authenticator, account } = await newPasskey();
    const [one, two] = [await requestOptions(), await requestOptions()];
    const credential = authenticator.get(one.options);
    expectRefusal(
      await finishSignIn({ challenge_id: two.challenge_id, credential }),
      400,
      "webauthn_verification_failed",
    );
    expect(await sessionsOf(account.id)).toHaveLength(1);
    expectOk(await finishSignIn({ challenge_id: one.challenge_id, credential }));
  });

  test("refuses a passkey assertion whose user handle names another account", async () => {
    const [owner, victim] = [await newPasskey(), await newPasskey()];
    const userHandle = Buffer.from(victim.account.id).toString("base64url");
    const { challenge_id, options } = await requestOptions();
    const credential = owner.authenticator.get(options, { userHandle });
    expectRefusal(await finishSignIn({ challenge_id, credential }), 400, "webauthn_verification_failed");
    expect(await sessionsOf(victim.account.id)).toHaveLength(1);
  });
});

describe("a repeated OAuth callback", () => {
  test("a repeated OAuth callback creates no second session in the implicit flow, even with another person's code", async () => {
    const { state } = await begin({ redirect_to: app });
    const person = newPerson();
    const code = await admit(person);
    const user = await userOf((await finish(state, { code })).fragment);
    for (const again of [code, await admit(person), await admit(newPerson())]) {
      const { target, query, fragment } = await finish(state, { code: again });
      expect(target.origin).toBe(site);
      expect(query.error_code).toBe("bad_oauth_state");
      expect(fragment).not.toHaveProperty("access_token");
    }
    expect(await sessionsOf(user.id)).toHaveLength(1);
  });

  test("a second OAuth callback with the same state issues no PKCE code, and the first code signs in only the first callback's account", async () => {
    const verifier = newVerifier();
    const { state } = await begin({ redirect_to: app, ...challengeOf(verifier) });
    const person = newPerson();
    const { query: first } = await finish(state, { code: await admit(person) });
    const { query, fragment } = await finish(state, { code: await admit(newPerson()) });
    expect(query.error_code).toBe("flow_state_already_used");
    expect({ ...query, ...fragment }).not.toHaveProperty("code");
    const session = sessionOf(expectOk(await exchange(first.code ?? "", verifier)));
    expect(session.user.email).toBe(person.email);
    expect((await finish(state, { code: await admit(person) })).query.error_code).toBe("bad_oauth_state");
    expect(await sessionsOf(session.user.id)).toEqual([session.id]);
  });

  test("does not accept an OAuth state or the provider's own code as an auth code", async () => {
    const verifier = newVerifier();
    const { state } = await begin({ redirect_to: app, ...challengeOf(verifier) });
    const code = await admit(newPerson());
    expectRefusal(await exchange(state, verifier), 404, "flow_state_not_found");
    expectRefusal(await exchange(code, verifier), 404, "flow_state_not_found");
    expectOk(await exchange((await finish(state, { code })).query.code ?? "", verifier));
  });

  test("each of 10 concurrent OAuth callbacks with one state either succeeds or finds the state already used", async () => {
    const { state } = await begin({ redirect_to: app });
    const person = newPerson();
    const codes = await Promise.all(Array.from({ length: 10 }, () => admit(person)));
    const ends = await Promise.all(codes.map((code) => finish(state, { code })));
    // A callback finds the state already used if another callback has completed.
    for (const { answer, query } of ends) {
      expect([302, "bad_oauth_state"]).toContain(answer.status === 303 ? query.error_code : answer.status);
    }
    const [opened, ...more] = ends.filter(({ fragment }) => "access_token" in fragment);
    const { id } = await userOf(opened?.fragment ?? {});
    expect(await sessionsOf(id)).toHaveLength(1 + more.length);
    expect((await finish(state, { code: await admit(person) })).query.error_code).toBe("bad_oauth_state");
  });
});

describe("a code or a subject from another OAuth provider", () => {
  const providers = ["keycloak", "gitlab", "github"];
  const pairs = providers.flatMap((begun) => providers.filter((name) => name !== begun).map((name) => [begun, name]));

  test.each(pairs)(
    "an OAuth flow begun with %s refuses a code from %s with server_error, and accepts its own provider's code",
    async (begun, other) => {
      const person = newPerson();
      const { state } = await begin({ provider: begun, redirect_to: app });
      const { query, fragment } = await finish(state, { code: await admit(person, other), provider: other });
      expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
      expect(fragment).not.toHaveProperty("access_token");
      expect(await sql("select from auth.users where email = $1", [person.email])).toEqual([]);
      const { fragment: own } = await signInAs(person, { provider: begun });
      expect(await userOf(own)).toMatchObject({ email: person.email, app_metadata: { provider: begun } });
    },
  );

  test("users with the same subject at two OAuth providers get two separate accounts", async () => {
    const sub = newSubject();
    const one = await userOf((await signInAs(newPerson({ sub }), { provider: "keycloak" })).fragment);
    const two = await userOf((await signInAs(newPerson({ sub }), { provider: "gitlab" })).fragment);
    expect(two.id).not.toBe(one.id);
  });
});

describe("the auth code of an OAuth flow", () => {
  /** Requests a password reset and follows the link in the email. */
  async function recovering() {
    const { id, email } = await newAccount();
    const verifier = newVerifier();
    expectOk(await call("POST /recover", { body: { email, ...challengeOf(verifier) } }));
    const { location } = await get(`/verify?type=recovery&token=${(await nextMail(email)).tokenHash}`);
    return { id, verifier, code: new URL(location).searchParams.get("code") ?? "" };
  }

  test("refuses an auth code with another flow's PKCE verifier, and still accepts the correct verifier", async () => {
    const [one, two] = [await recovering(), await recovering()];
    expectRefusal(await exchange(one.code, two.verifier), 400, "bad_code_verifier");
    expectRefusal(await exchange(two.code, one.verifier), 400, "bad_code_verifier");
    for (const { id, code, verifier } of [one, two]) {
      expect(await sessionsOf(id)).toEqual([]);
      expect(sessionOf(expectOk(await exchange(code, verifier))).user.id).toBe(id);
    }
  });

  test("of 50 concurrent callers with the same auth code, only the one with the verifier gets a session", async () => {
    const { id, code, verifier } = await recovering();
    const callers = Array.from({ length: 50 }, (_none, index) => (index === 25 ? verifier : newVerifier()));
    const answers = await Promise.all(callers.map((own) => exchange(code, own)));
    const [owner] = answers.splice(25, 1);
    expect(owner?.status, owner?.text).toBe(200);
    for (const { status, body } of answers) {
      expect(["400 bad_code_verifier", "404 flow_state_not_found"]).toContain(`${status} ${body.code}`);
    }
    expect(await sessionsOf(id)).toEqual([sessionOf(owner?.body).id]);
  });
});

describe("tokens sent along with a sign-in", () => {
  test("a sign-in ignores another user's tokens in the request and creates a new session", async () => {
    const [stranger, victim] = [await newSession(), await newAccount()];
    const handed = {
      access_token: stranger.accessToken,
      refresh_token: stranger.refreshToken,
      session_id: stranger.id,
      user_id: stranger.account.id,
      id: stranger.account.id,
    };
    const answer = await call(`POST /token?grant_type=password&${new URLSearchParams(handed)}`, {
      body: { ...handed, email: victim.email, password },
      bearer: stranger.accessToken,
      headers: { Cookie: `sb-access-token=${stranger.accessToken}; sb-refresh-token=${stranger.refreshToken}` },
    });
    const session = sessionOf(expectOk(answer));
    expect(session).toMatchObject({ user: { id: victim.id }, claims: { sub: victim.id } });
    expect(session.id).not.toBe(stranger.id);
    expect(session.refreshToken).not.toBe(stranger.refreshToken);
    expect(await sessionsOf(stranger.account.id)).toEqual([stranger.id]);
    expect(sessionOf(expectOk(await refresh(stranger.refreshToken))).user.id).toBe(stranger.account.id);
  });

  test("an OAuth callback ignores another user's tokens in the request", async () => {
    const stranger = await newSession();
    const { state } = await begin({ redirect_to: app, access_token: stranger.accessToken });
    const person = newPerson();
    const { access_token, refresh_token } = {
      access_token: stranger.accessToken,
      refresh_token: stranger.refreshToken,
    };
    const { fragment } = await finish(state, { code: await admit(person), access_token, refresh_token });
    expect(fragment.access_token).not.toBe(access_token);
    expect(fragment.refresh_token).not.toBe(refresh_token);
    expect(sessionOf({ ...fragment, user: await userOf(fragment) }).user.email).toBe(person.email);
    expect(await sessionsOf(stranger.account.id)).toEqual([stranger.id]);
  });

  test("a refresh token renews its own session even if the request has another user's access token", async () => {
    const [one, two] = [await newSession(), await newSession()];
    const body = { refresh_token: one.refreshToken };
    const answer = await call("POST /token?grant_type=refresh_token", { body, bearer: two.accessToken });
    const next = sessionOf(expectOk(answer));
    expect(next).toMatchObject({ id: one.id, user: { id: one.account.id }, claims: { sub: one.account.id } });
    expect(sessionOf(expectOk(await refresh(two.refreshToken))).id).toBe(two.id);
  });

  test("an access token cannot refresh a session, and a refresh token cannot authenticate", async () => {
    const { accessToken, refreshToken } = await newSession();
    expectRefusal(await refresh(accessToken), 400, "validation_failed");
    expectRefusal(await call("GET /user", { bearer: refreshToken }), 403, "bad_jwt");
    expectOk(await refresh(refreshToken));
  });

  test("a logout does not end another user's session named in the request", async () => {
    const [one, two] = [await newSession(), await newSession()];
    const answer = await call("POST /logout?scope=global", { bearer: one.accessToken, body: { session_id: two.id } });
    expectOk(answer, 204);
    expect(await sessionsOf(one.account.id)).toEqual([]);
    expect(await sessionsOf(two.account.id)).toEqual([two.id]);
  });
});

describe("second factors across users and sessions", () => {
  test("a user cannot challenge, verify or delete another user's factor, or use that factor's challenge for their own factor", async () => {
    const [owner, stranger] = [await newRaisedSession(), await newRaisedSession()];
    const { factorId, secret } = owner.factor;
    const challengeId = await challenge(owner.accessToken, factorId);
    const code = codeOf(secret);
    const bearer = stranger.accessToken;
    expectRefusal(await verifyCode(bearer, { factorId, challengeId, code }), 404, "mfa_factor_not_found");
    expectRefusal(await call(`POST /factors/${factorId}/challenge`, { bearer, body: {} }), 404, "mfa_factor_not_found");
    expectRefusal(await call(`DELETE /factors/${factorId}`, { bearer }), 404, "mfa_factor_not_found");
    const own = { factorId: stranger.factor.factorId, code: codeOf(stranger.factor.secret) };
    expectRefusal(await verifyCode(bearer, { ...own, challengeId }), 422, "mfa_factor_not_found");
    expectRefusal(await verifyCode(bearer, { ...own, challengeId, code }), 422, "mfa_factor_not_found");
    expectOk(await verifyCode(owner.accessToken, { factorId, challengeId, code }));
  });

  test("a challenge of a user's own factor is valid in any session of that user", async () => {
    const { account, accessToken, factor } = await newRaisedSession();
    const challengeId = await challenge(accessToken, factor.factorId);
    const other = await signIn(account);
    const raised = await verifyCode(other.accessToken, {
      factorId: factor.factorId,
      challengeId,
      code: codeOf(factor.secret),
    });
    expect(sessionOf(expectOk(raised))).toMatchObject({ id: other.id, claims: { aal: "aal2" } });
  });

  test("another user's code does not raise a session to aal2, and a response never contains the factor's secret", async () => {
    const [owner, stranger] = [await newSession(), await newSession()];
    const [theirs, own] = [await enroll(owner.accessToken), await enroll(stranger.accessToken)];
    const challengeId = await challenge(stranger.accessToken, own.factorId);
    const given = { factorId: own.factorId, challengeId, code: codeOf(theirs.secret) };
    expectRefusal(await verifyCode(stranger.accessToken, given), 422, "mfa_verification_failed");
    const answer = await call("GET /user", { bearer: owner.accessToken });
    expect(expectOk(answer).factors).toMatchObject([{ id: theirs.factorId, status: "unverified" }]);
    expect(answer.text).not.toContain(theirs.secret);
  });
});
