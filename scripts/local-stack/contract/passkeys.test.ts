import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newSession, sessionOf, signIn } from "./support/accounts.ts";
import { Authenticator, type Quirks } from "./support/authenticator.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { enroll, newRaisedSession, raise } from "./support/totp.ts";
import { describeVariant } from "./support/variant.ts";

const creationOptions = async (bearer: string) =>
  expectOk(await call("POST /passkeys/registration/options", { bearer, body: {} }));
const requestOptions = async () => expectOk(await call("POST /passkeys/authentication/options", { body: {} }));
const finishRegistration = (bearer: string, body: Record<string, unknown>) =>
  call("POST /passkeys/registration/verify", { bearer, body });
const finishSignIn = (body: Record<string, unknown>) => call("POST /passkeys/authentication/verify", { body });

async function register(bearer: string, authenticator = new Authenticator(), quirks: Quirks = {}) {
  const { challenge_id, options } = await creationOptions(bearer);
  const credential = authenticator.create(options, quirks);
  const passkey = expectOk(await finishRegistration(bearer, { challenge_id, credential }));
  return { authenticator, passkey, credential };
}

async function newPasskey(quirks: Quirks = {}) {
  const session = await newSession();
  return { ...session, ...(await register(session.accessToken, new Authenticator(), quirks)) };
}

async function signInWith(authenticator: Authenticator, quirks: Quirks = {}) {
  const { challenge_id, options } = await requestOptions();
  return finishSignIn({ challenge_id, credential: authenticator.get(options, quirks) });
}

describe("POST /passkeys/registration/options", () => {
  test("answers with a challenge and creation options without a wrapper", async () => {
    const { account, accessToken } = await newSession();
    const body = await creationOptions(accessToken);
    expect(Object.keys(body).sort()).toEqual(["challenge_id", "expires_at", "options"]);
    expect(body.options).toMatchObject({
      rp: { id: "localhost", name: "Contract" },
      user: { name: account.email, displayName: account.email },
      timeout: 300_000,
      attestation: "none",
      authenticatorSelection: { residentKey: "required", userVerification: "preferred" },
    });
    expect(body.options).not.toHaveProperty("publicKey");
    expect(Buffer.from(body.options.user.id, "base64url").toString()).toBe(account.id);
    expect(Buffer.from(body.options.challenge, "base64url")).toHaveLength(32);
    expect(Math.abs(body.expires_at - Date.now() / 1_000 - 300)).toBeLessThan(10);
  });

  test("offers ten algorithms, ES256 first", async () => {
    const { accessToken } = await newSession();
    const { pubKeyCredParams } = (await creationOptions(accessToken)).options;
    expect(pubKeyCredParams).toHaveLength(10);
    expect(pubKeyCredParams[0]).toEqual({ type: "public-key", alg: -7 });
    const algorithms = pubKeyCredParams.map((param: { alg: number }) => param.alg);
    expect(algorithms).toEqual(expect.arrayContaining([-7, -257, -8]));
  });

  test("the display name is the user's name, where there is one", async () => {
    const { accessToken } = await newSession({ user_metadata: { name: "Ada" } });
    expect((await creationOptions(accessToken)).options.user.displayName).toBe("Ada");
  });

  test("excludes the passkeys that there are", async () => {
    const { accessToken, authenticator } = await newPasskey();
    const { excludeCredentials } = (await creationOptions(accessToken)).options;
    expect(excludeCredentials).toMatchObject([{ type: "public-key", id: authenticator.credentialId }]);
  });

  test("without a bearer: 401", async () => {
    expectRefusal(await call("POST /passkeys/registration/options", { body: {} }), 401, "no_authorization");
  });

  test("at aal1 of a user with a verified factor: 403 insufficient_aal; at aal2 fine", async () => {
    const { account, accessToken } = await newRaisedSession();
    const { accessToken: low } = await signIn(account);
    const refused = await call("POST /passkeys/registration/options", { bearer: low, body: {} });
    expectRefusal(refused, 403, "insufficient_aal");
    await register(accessToken);
  });

  test("a factor that is not verified does not matter", async () => {
    const { accessToken } = await newSession();
    await enroll(accessToken);
    await register(accessToken);
  });
});

describe("POST /passkeys/registration/verify", () => {
  test("answers with id, name and time; an unknown model is called Passkey", async () => {
    const { passkey } = await newPasskey();
    expect(passkey).toEqual({
      id: expect.any(String),
      friendly_name: "Passkey",
      created_at: expect.any(String),
    });
  });

  test("a known model has its name", async () => {
    const { accessToken } = await newSession();
    const model = new Authenticator("bada5566-a7aa-401f-bd96-45619a55120d");
    expect((await register(accessToken, model)).passkey.friendly_name).toBe("1Password");
  });

  test("a challenge is good for one attempt, whatever comes of it: 400 webauthn_challenge_not_found", async () => {
    const { accessToken } = await newSession();
    const { challenge_id, options } = await creationOptions(accessToken);
    const credential = new Authenticator().create(options);
    const broken = { ...credential, response: { ...credential.response, attestationObject: "AA" } };
    const refused = await finishRegistration(accessToken, { challenge_id, credential: broken });
    expectRefusal(refused, 400, "webauthn_verification_failed");
    const again = await finishRegistration(accessToken, { challenge_id, credential });
    expectRefusal(again, 400, "webauthn_challenge_not_found");
  });

  test("a challenge of another user, of a sign-in, or of nobody: 400 webauthn_challenge_not_found", async () => {
    const [mine, other] = [await newSession(), await newSession()];
    const foreign = await creationOptions(other.accessToken);
    const credential = new Authenticator().create(foreign.options);
    const signing = await requestOptions();
    for (const challenge_id of [foreign.challenge_id, signing.challenge_id, randomUUID()]) {
      const answer = await finishRegistration(mine.accessToken, { challenge_id, credential });
      expectRefusal(answer, 400, "webauthn_challenge_not_found");
    }
  });

  test("an expired challenge: 400 webauthn_challenge_expired", async () => {
    const { accessToken } = await newSession();
    const { challenge_id, options } = await creationOptions(accessToken);
    await sql("update auth.webauthn_challenges set expires_at = now() - interval '1 second' where id = $1", [
      challenge_id,
    ]);
    const answer = await finishRegistration(accessToken, {
      challenge_id,
      credential: new Authenticator().create(options),
    });
    expectRefusal(answer, 400, "webauthn_challenge_expired");
  });

  test.each<[string, Quirks]>([
    ["another origin", { origin: "http://evil.test" }],
    ["an origin with another port", { origin: "http://localhost:3001" }],
    ["another RP", { rpId: "evil.test" }],
    ["another challenge", { challenge: Buffer.alloc(32).toString("base64url") }],
    ["no user presence", { userPresent: false }],
    ["another ceremony", { type: "webauthn.get" }],
  ])("%s: 400 webauthn_verification_failed", async (_name, quirks) => {
    const { accessToken } = await newSession();
    const { challenge_id, options } = await creationOptions(accessToken);
    const credential = new Authenticator().create(options, quirks);
    const answer = await finishRegistration(accessToken, { challenge_id, credential });
    expectRefusal(answer, 400, "webauthn_verification_failed");
  });

  // Supabase Auth means this to be 422 webauthn_credential_exists, and answers 500.
  test("one that is registered already, for whomever, is refused and stays its owner's", async () => {
    const { account, authenticator } = await newPasskey();
    const other = await newSession();
    const { challenge_id, options } = await creationOptions(other.accessToken);
    const credential = authenticator.create(options);
    const answer = await finishRegistration(other.accessToken, { challenge_id, credential });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    const owners = await sql("select user_id from auth.webauthn_credentials where credential_id = decode($1, 'hex')", [
      Buffer.from(authenticator.credentialId, "base64url").toString("hex"),
    ]);
    expect(owners).toEqual([{ user_id: account.id }]);
  });

  test("ten are enough: 422 too_many_passkeys", async () => {
    const { account, accessToken } = await newPasskey();
    await sql(
      `insert into auth.webauthn_credentials (user_id, credential_id, public_key)
       select $1::uuid, decode(md5(n::text || $1::uuid), 'hex'), '\\x00' from generate_series(1, 9) n`,
      [account.id],
    );
    const answer = await call("POST /passkeys/registration/options", { bearer: accessToken, body: {} });
    expectRefusal(answer, 422, "too_many_passkeys");
  });

  test.each([[{}], [{ challenge_id: "x", credential: {} }], [{ challenge_id: randomUUID() }]])(
    "%j: 400 validation_failed",
    async (body) => {
      const { accessToken } = await newSession();
      expectRefusal(await finishRegistration(accessToken, body), 400, "validation_failed");
    },
  );
});

describe("POST /passkeys/authentication", () => {
  test("options name no passkey", async () => {
    const body = await requestOptions();
    expect(body.options).toMatchObject({
      challenge: expect.any(String),
      rpId: "localhost",
      userVerification: "preferred",
      timeout: 300_000,
    });
    expect(body.options.allowCredentials ?? []).toEqual([]);
  });

  test("signs in: aal1, amr passkey", async () => {
    const { account, authenticator } = await newPasskey();
    const session = sessionOf(expectOk(await signInWith(authenticator)));
    expect(session.user.id).toBe(account.id);
    expect(session.claims).toMatchObject({ aal: "aal1", amr: [{ method: "passkey" }] });
  });

  test("records the use", async () => {
    const { accessToken, authenticator } = await newPasskey();
    const [before] = expectOk(await call("GET /passkeys", { bearer: accessToken }));
    expect(before).not.toHaveProperty("last_used_at");
    expectOk(await signInWith(authenticator));
    const [after] = expectOk(await call("GET /passkeys", { bearer: accessToken }));
    expect(after.last_used_at).toEqual(expect.any(String));
  });

  test("a counter that goes backwards is tolerated", async () => {
    const { authenticator } = await newPasskey();
    expectOk(await signInWith(authenticator, { counter: 9 }));
    expectOk(await signInWith(authenticator, { counter: 3 }));
  });

  test("a challenge is good once, and not for registration's", async () => {
    const { accessToken, authenticator } = await newPasskey();
    const { challenge_id, options } = await requestOptions();
    const credential = authenticator.get(options);
    expectOk(await finishSignIn({ challenge_id, credential }));
    expectRefusal(await finishSignIn({ challenge_id, credential }), 400, "webauthn_challenge_not_found");
    const other = await creationOptions(accessToken);
    const answer = await finishSignIn({
      challenge_id: other.challenge_id,
      credential: authenticator.get(other.options),
    });
    expectRefusal(answer, 400, "webauthn_challenge_not_found");
  });

  test.each<[string, Quirks]>([
    ["another origin", { origin: "https://localhost:3000" }],
    ["another RP", { rpId: "evil.test" }],
    ["no user presence", { userPresent: false }],
    ["no user handle", { userHandle: null }],
    ["a user handle of nobody", { userHandle: Buffer.from(randomUUID()).toString("base64url") }],
    ["a user handle that is none", { userHandle: "AAAA" }],
    ["a passkey that has become one that is backed up", { backupEligible: true }],
  ])("%s: 400 webauthn_verification_failed", async (_name, quirks) => {
    const { authenticator } = await newPasskey();
    expectRefusal(await signInWith(authenticator, quirks), 400, "webauthn_verification_failed");
  });

  test("a signature by another key: 400 webauthn_verification_failed", async () => {
    const { authenticator, account } = await newPasskey();
    const { challenge_id, options } = await requestOptions();
    const forger = new Authenticator();
    forger.create({ challenge: "", user: { id: Buffer.from(account.id).toString("base64url") } });
    const credential = { ...forger.get(options), id: authenticator.credentialId, rawId: authenticator.credentialId };
    expectRefusal(await finishSignIn({ challenge_id, credential }), 400, "webauthn_verification_failed");
  });

  test("banned: 403 user_banned", async () => {
    const { account, authenticator } = await newPasskey();
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "1h" } }));
    expectRefusal(await signInWith(authenticator), 403, "user_banned");
  });

  test("unconfirmed: 403 email_not_confirmed", async () => {
    const { account, authenticator } = await newPasskey();
    await sql("update auth.users set email_confirmed_at = null where id = $1", [account.id]);
    expectRefusal(await signInWith(authenticator), 403, "email_not_confirmed");
  });

  test("10 times at once with one assertion: one session", async () => {
    const { account, authenticator } = await newPasskey();
    const { challenge_id, options } = await requestOptions();
    const credential = authenticator.get(options);
    const answers = await Promise.all(Array.from({ length: 10 }, () => finishSignIn({ challenge_id, credential })));
    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1);
    expect(await sql("select from auth.sessions where user_id = $1", [account.id])).toHaveLength(2);
  });
});

describe("one's own passkeys", () => {
  test("are a bare list, oldest first", async () => {
    const { accessToken, passkey } = await newPasskey();
    const { passkey: second } = await register(accessToken);
    const list = expectOk(await call("GET /passkeys", { bearer: accessToken }));
    expect(list.map((item: { id: string }) => item.id)).toEqual([passkey.id, second.id]);
    expect(Object.keys(list[0]).sort()).toEqual(["created_at", "friendly_name", "id"]);
  });

  test("are renamed, with 1 to 120 bytes", async () => {
    const { accessToken, passkey } = await newPasskey();
    const rename = (friendly_name: string) =>
      call(`PATCH /passkeys/${passkey.id}`, { bearer: accessToken, body: { friendly_name } });
    expect(expectOk(await rename("Laptop"))).toMatchObject({ id: passkey.id, friendly_name: "Laptop" });
    expectOk(await rename("x".repeat(120)));
    expectRefusal(await rename("x".repeat(121)), 400, "validation_failed");
    expectRefusal(await rename("é".repeat(61)), 400, "validation_failed");
    expectRefusal(await rename(""), 400, "validation_failed");
  });

  test("are deleted, and sign in no more", async () => {
    const { accessToken, passkey, authenticator } = await newPasskey();
    expectOk(await call(`DELETE /passkeys/${passkey.id}`, { bearer: accessToken }), 204);
    expectRefusal(await signInWith(authenticator), 400, "webauthn_verification_failed");
    const again = await call(`DELETE /passkeys/${passkey.id}`, { bearer: accessToken });
    expectRefusal(again, 404, "validation_failed");
  });

  test("of another user, or of nobody: 404 validation_failed", async () => {
    const { passkey } = await newPasskey();
    const { accessToken } = await newSession();
    for (const id of [passkey.id, randomUUID(), "1"]) {
      const body = { friendly_name: "Mine" };
      expectRefusal(await call(`PATCH /passkeys/${id}`, { bearer: accessToken, body }), 404, "validation_failed");
      expectRefusal(await call(`DELETE /passkeys/${id}`, { bearer: accessToken }), 404, "validation_failed");
    }
  });

  test("with a verified factor, at aal1: deletion is 403 insufficient_aal, renaming is not", async () => {
    const { account, accessToken, passkey } = await newPasskey();
    await raise(accessToken, await enroll(accessToken));
    const { accessToken: low } = await signIn(account);
    const path = `/passkeys/${passkey.id}`;
    expectRefusal(await call(`DELETE ${path}`, { bearer: low }), 403, "insufficient_aal");
    expectOk(await call(`PATCH ${path}`, { bearer: low, body: { friendly_name: "Laptop" } }));
  });

  test("without a bearer: 401", async () => {
    expectRefusal(await call("GET /passkeys"), 401, "no_authorization");
  });
});

describe("passkeys, for an administrator", () => {
  test("are listed and deleted", async () => {
    const { account, passkey } = await newPasskey();
    const path = `/admin/users/${account.id}/passkeys`;
    expect(expectOk(await admin(`GET ${path}`))).toMatchObject([{ id: passkey.id }]);
    expectOk(await admin(`DELETE ${path}/${passkey.id}`), 204);
    expect(expectOk(await admin(`GET ${path}`))).toEqual([]);
    expectRefusal(await admin(`DELETE ${path}/${passkey.id}`), 404, "validation_failed");
  });

  test("a user's token: 403 not_admin", async () => {
    const { account, accessToken } = await newSession();
    const answer = await call(`GET /admin/users/${account.id}/passkeys`, { bearer: accessToken });
    expectRefusal(answer, 403, "not_admin");
  });
});

describeVariant("passkeys off", { GOTRUE_PASSKEY_ENABLED: "false" }, (url) => {
  test("404 passkey_disabled, and the settings say so", async () => {
    const { accessToken } = await newSession();
    const options = { url: url(), body: {} };
    expectRefusal(await call("POST /passkeys/authentication/options", options), 404, "passkey_disabled");
    const registration = await call("POST /passkeys/registration/options", { ...options, bearer: accessToken });
    expectRefusal(registration, 404, "passkey_disabled");
    expect(expectOk(await call("GET /settings", { url: url() })).passkeys_enabled).toBe(false);
  });
});
