import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newSession, sessionOf, signIn } from "./support/accounts.ts";
import { Authenticator, type Quirks } from "./support/authenticator.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { creationOptions, finishSignIn, newPasskey, register, requestOptions, signInWith } from "./support/passkeys.ts";
import { featuresOff } from "./support/settings.ts";
import { enroll, raise } from "./support/totp.ts";
import { describeVariant } from "./support/variant.ts";

describe("POST /passkeys/authentication", () => {
  test("POST /passkeys/authentication/options returns options that name no passkey", async () => {
    const body = await requestOptions();
    expect(body.options).toMatchObject({
      challenge: expect.any(String),
      rpId: "localhost",
      userVerification: "preferred",
      timeout: 300_000,
    });
    expect(body.options.allowCredentials ?? []).toEqual([]);
  });

  test("a passkey sign-in has aal1 and the amr method passkey", async () => {
    const { account, authenticator } = await newPasskey();
    const session = sessionOf(expectOk(await signInWith(authenticator)));
    expect(session.user.id).toBe(account.id);
    expect(session.claims).toMatchObject({ aal: "aal1", amr: [{ method: "passkey" }] });
  });

  test("a passkey sign-in records when the passkey was used", async () => {
    const { accessToken, authenticator } = await newPasskey();
    const [before] = expectOk(await call("GET /passkeys", { bearer: accessToken }));
    expect(before).not.toHaveProperty("last_used_at");
    expectOk(await signInWith(authenticator));
    const [after] = expectOk(await call("GET /passkeys", { bearer: accessToken }));
    expect(after.last_used_at).toEqual(expect.any(String));
  });

  test("a passkey sign-in tolerates a signature counter that goes backwards", async () => {
    const { authenticator } = await newPasskey();
    expectOk(await signInWith(authenticator, { counter: 9 }));
    expectOk(await signInWith(authenticator, { counter: 3 }));
  });

  test("a passkey sign-in accepts its challenge only once, and refuses a registration challenge", async () => {
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
    ["an unknown user handle", { userHandle: Buffer.from(randomUUID()).toString("base64url") }],
    ["a malformed user handle", { userHandle: "AAAA" }],
    ["a passkey that was not eligible for backup but now is", { backupEligible: true }],
  ])("a passkey sign-in with %s is refused with 400 webauthn_verification_failed", async (_name, quirks) => {
    const { authenticator } = await newPasskey();
    expectRefusal(await signInWith(authenticator, quirks), 400, "webauthn_verification_failed");
  });

  test("a passkey sign-in refuses a signature by another key with 400 webauthn_verification_failed", async () => {
    const { authenticator, account } = await newPasskey();
    const { challenge_id, options } = await requestOptions();
    const forger = new Authenticator();
    forger.create({ challenge: "", user: { id: Buffer.from(account.id).toString("base64url") } });
    const credential = { ...forger.get(options), id: authenticator.credentialId, rawId: authenticator.credentialId };
    expectRefusal(await finishSignIn({ challenge_id, credential }), 400, "webauthn_verification_failed");
  });

  test("a passkey sign-in refuses a banned user with 403 user_banned", async () => {
    const { account, authenticator } = await newPasskey();
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "1h" } }));
    expectRefusal(await signInWith(authenticator), 403, "user_banned");
  });

  test("a passkey sign-in refuses an unconfirmed user with 403 email_not_confirmed", async () => {
    const { account, authenticator } = await newPasskey();
    await sql("update auth.users set email_confirmed_at = null where id = $1", [account.id]);
    expectRefusal(await signInWith(authenticator), 403, "email_not_confirmed");
  });

  test("creates one session for 10 concurrent sign-ins with one passkey assertion", async () => {
    const { account, authenticator } = await newPasskey();
    const { challenge_id, options } = await requestOptions();
    const credential = authenticator.get(options);
    const answers = await Promise.all(Array.from({ length: 10 }, () => finishSignIn({ challenge_id, credential })));
    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1);
    expect(await sql("select from auth.sessions where user_id = $1", [account.id])).toHaveLength(2);
  });
});

describe("passkeys of the current user", () => {
  test("GET /passkeys returns a bare array, oldest passkey first", async () => {
    const { accessToken, passkey } = await newPasskey();
    const { passkey: second } = await register(accessToken);
    const list = expectOk(await call("GET /passkeys", { bearer: accessToken }));
    expect(list.map((item: { id: string }) => item.id)).toEqual([passkey.id, second.id]);
    expect(Object.keys(list[0]).sort()).toEqual(["created_at", "friendly_name", "id"]);
  });

  test("a passkey can be renamed with a name of 1 to 120 bytes", async () => {
    const { accessToken, passkey } = await newPasskey();
    const rename = (friendly_name: string) =>
      call(`PATCH /passkeys/${passkey.id}`, { bearer: accessToken, body: { friendly_name } });
    expect(expectOk(await rename("Laptop"))).toMatchObject({ id: passkey.id, friendly_name: "Laptop" });
    expectOk(await rename("x".repeat(120)));
    expectRefusal(await rename("x".repeat(121)), 400, "validation_failed");
    expectRefusal(await rename("é".repeat(61)), 400, "validation_failed");
    expectRefusal(await rename(""), 400, "validation_failed");
  });

  test("a passkey can be deleted and then no longer signs in", async () => {
    const { accessToken, passkey, authenticator } = await newPasskey();
    expectOk(await call(`DELETE /passkeys/${passkey.id}`, { bearer: accessToken }), 204);
    expectRefusal(await signInWith(authenticator), 400, "webauthn_verification_failed");
    const again = await call(`DELETE /passkeys/${passkey.id}`, { bearer: accessToken });
    expectRefusal(again, 404, "validation_failed");
  });

  test("changing a passkey that does not exist or belongs to another user returns 404 validation_failed", async () => {
    const { passkey } = await newPasskey();
    const { accessToken } = await newSession();
    for (const id of [passkey.id, randomUUID(), "1"]) {
      const body = { friendly_name: "Mine" };
      expectRefusal(await call(`PATCH /passkeys/${id}`, { bearer: accessToken, body }), 404, "validation_failed");
      if (id === "1") expectRefusal(await call("PATCH /passkeys/1", { bearer: accessToken }), 404, "validation_failed");
      expectRefusal(await call(`DELETE /passkeys/${id}`, { bearer: accessToken }), 404, "validation_failed");
    }
  });

  test("at aal1, a user with a verified factor can rename but not delete a passkey: 403 insufficient_aal", async () => {
    const { account, accessToken, passkey } = await newPasskey();
    await raise(accessToken, await enroll(accessToken));
    const { accessToken: low } = await signIn(account);
    const path = `/passkeys/${passkey.id}`;
    expectRefusal(await call(`DELETE ${path}`, { bearer: low }), 403, "insufficient_aal");
    expectOk(await call(`PATCH ${path}`, { bearer: low, body: { friendly_name: "Laptop" } }));
  });

  test("GET /passkeys requires a bearer token: 401", async () => {
    expectRefusal(await call("GET /passkeys"), 401, "no_authorization");
  });
});

describe("passkeys in the admin API", () => {
  test("an administrator can list and delete a user's passkeys", async () => {
    const { account, passkey } = await newPasskey();
    const path = `/admin/users/${account.id}/passkeys`;
    expect(expectOk(await admin(`GET ${path}`))).toMatchObject([{ id: passkey.id }]);
    expectOk(await admin(`DELETE ${path}/${passkey.id}`), 204);
    expect(expectOk(await admin(`GET ${path}`))).toEqual([]);
    expectRefusal(await admin(`DELETE ${path}/${passkey.id}`), 404, "validation_failed");
  });

  test("the admin API's passkey routes refuse a user's token with 403 not_admin", async () => {
    const { account, accessToken } = await newSession();
    const answer = await call(`GET /admin/users/${account.id}/passkeys`, { bearer: accessToken });
    expectRefusal(answer, 403, "not_admin");
  });
});

describeVariant("passkeys off", featuresOff, (url) => {
  test("with passkeys off, their routes return 404 passkey_disabled, and /settings shows them as disabled", async () => {
    const { accessToken } = await newSession();
    const options = { url: url(), body: {} };
    expectRefusal(await call("POST /passkeys/authentication/options", options), 404, "passkey_disabled");
    const registration = await call("POST /passkeys/registration/options", { ...options, bearer: accessToken });
    expectRefusal(registration, 404, "passkey_disabled");
    expect(expectOk(await call("GET /settings", { url: url() })).passkeys_enabled).toBe(false);
  });
});
