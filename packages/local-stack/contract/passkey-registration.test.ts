import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newSession, signIn } from "./support/accounts.ts";
import { Authenticator, type Quirks } from "./support/authenticator.ts";
import { sql } from "./support/database.ts";
import { call, expectRefusal } from "./support/http.ts";
import { creationOptions, finishRegistration, newPasskey, register, requestOptions } from "./support/passkeys.ts";
import { enroll, newRaisedSession } from "./support/totp.ts";

describe("POST /passkeys/registration/options", () => {
  test("POST /passkeys/registration/options returns a challenge and creation options without a wrapper", async () => {
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
    expect(body.options.authenticatorSelection).not.toHaveProperty("requireResidentKey");
    expect(body.options).not.toHaveProperty("publicKey");
    expect(Buffer.from(body.options.user.id, "base64url").toString()).toBe(account.id);
    expect(Buffer.from(body.options.challenge, "base64url")).toHaveLength(32);
    expect(Math.abs(body.expires_at - Date.now() / 1_000 - 300)).toBeLessThan(10);
  });

  test("passkey registration offers ten algorithms, ES256 first", async () => {
    const { accessToken } = await newSession();
    const { pubKeyCredParams } = (await creationOptions(accessToken)).options;
    expect(pubKeyCredParams).toHaveLength(10);
    expect(pubKeyCredParams[0]).toEqual({ type: "public-key", alg: -7 });
    const algorithms = pubKeyCredParams.map((param: { alg: number }) => param.alg);
    expect(algorithms).toEqual(expect.arrayContaining([-7, -257, -8]));
  });

  test("passkey registration uses the user's name, if any, as the display name", async () => {
    const { accessToken } = await newSession({ user_metadata: { name: "Ada" } });
    expect((await creationOptions(accessToken)).options.user.displayName).toBe("Ada");
  });

  test("passkey registration excludes existing passkeys", async () => {
    const { accessToken, authenticator } = await newPasskey();
    const { excludeCredentials } = (await creationOptions(accessToken)).options;
    expect(excludeCredentials).toMatchObject([{ type: "public-key", id: authenticator.credentialId }]);
  });

  test("passkey registration returns 401 without a bearer token", async () => {
    expectRefusal(await call("POST /passkeys/registration/options", { body: {} }), 401, "no_authorization");
  });

  test("passkey registration requires aal2 if the user has a verified factor: 403 insufficient_aal at aal1", async () => {
    const { account, accessToken } = await newRaisedSession();
    const { accessToken: low } = await signIn(account);
    const refused = await call("POST /passkeys/registration/options", { bearer: low, body: {} });
    expectRefusal(refused, 403, "insufficient_aal");
    await register(accessToken);
  });

  test("passkey registration does not require aal2 for an unverified factor", async () => {
    const { accessToken } = await newSession();
    await enroll(accessToken);
    await register(accessToken);
  });
});

describe("POST /passkeys/registration/verify", () => {
  test("a passkey registration returns an id, name and creation time, and an unknown authenticator's passkey is named Passkey", async () => {
    const { passkey } = await newPasskey();
    expect(passkey).toEqual({
      id: expect.any(String),
      friendly_name: "Passkey",
      created_at: expect.any(String),
    });
  });

  test("passkey registration names the passkey after its authenticator if the authenticator's model is known", async () => {
    const { accessToken } = await newSession();
    const model = new Authenticator("bada5566-a7aa-401f-bd96-45619a55120d");
    expect((await register(accessToken, model)).passkey.friendly_name).toBe("1Password");
  });

  test("a passkey challenge cannot be used again after a failed attempt: 400 webauthn_challenge_not_found", async () => {
    const { accessToken } = await newSession();
    const { challenge_id, options } = await creationOptions(accessToken);
    const credential = new Authenticator().create(options);
    const broken = { ...credential, response: { ...credential.response, attestationObject: "AA" } };
    const refused = await finishRegistration(accessToken, { challenge_id, credential: broken });
    expectRefusal(refused, 400, "webauthn_verification_failed");
    const again = await finishRegistration(accessToken, { challenge_id, credential });
    expectRefusal(again, 400, "webauthn_challenge_not_found");
  });

  test("passkey registration refuses an unknown challenge, another user's challenge and a sign-in challenge with 400 webauthn_challenge_not_found", async () => {
    const [mine, other] = [await newSession(), await newSession()];
    const foreign = await creationOptions(other.accessToken);
    const credential = new Authenticator().create(foreign.options);
    const signing = await requestOptions();
    for (const challenge_id of [foreign.challenge_id, signing.challenge_id, randomUUID()]) {
      const answer = await finishRegistration(mine.accessToken, { challenge_id, credential });
      expectRefusal(answer, 400, "webauthn_challenge_not_found");
    }
  });

  test("passkey registration refuses an expired challenge with 400 webauthn_challenge_expired", async () => {
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
    ["the type of another ceremony", { type: "webauthn.get" }],
  ])("a passkey registration with %s is refused with 400 webauthn_verification_failed", async (_name, quirks) => {
    const { accessToken } = await newSession();
    const { challenge_id, options } = await creationOptions(accessToken);
    const credential = new Authenticator().create(options, quirks);
    const answer = await finishRegistration(accessToken, { challenge_id, credential });
    expectRefusal(answer, 400, "webauthn_verification_failed");
  });

  // Supabase Auth means to return 422 webauthn_credential_exists, but returns 500.
  test("registering an already registered passkey returns 500 unexpected_failure and does not change its owner", async () => {
    const { account, authenticator } = await newPasskey();
    const other = await newSession();
    const { challenge_id, options } = await creationOptions(other.accessToken);
    const credential = authenticator.create(options);
    const answer = await finishRegistration(other.accessToken, { challenge_id, credential });
    expectRefusal(answer, 500, "unexpected_failure");
    const owners = await sql("select user_id from auth.webauthn_credentials where credential_id = decode($1, 'hex')", [
      Buffer.from(authenticator.credentialId, "base64url").toString("hex"),
    ]);
    expect(owners).toEqual([{ user_id: account.id }]);
  });

  test("refuses a user's eleventh passkey with 422 too_many_passkeys", async () => {
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
    "passkey registration refuses %j with 400 validation_failed",
    async (body) => {
      const { accessToken } = await newSession();
      expectRefusal(await finishRegistration(accessToken, body), 400, "validation_failed");
    },
  );
});
