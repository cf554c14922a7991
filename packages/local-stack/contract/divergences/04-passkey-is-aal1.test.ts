import { expect, test } from "vitest";
import { newSession, sessionOf } from "../support/accounts.ts";
import { Authenticator } from "../support/authenticator.ts";
import { call, expectOk } from "../support/http.ts";
import { enroll, raise } from "../support/totp.ts";

async function newPasskey() {
  const session = await newSession();
  const authenticator = new Authenticator();
  const bearer = session.accessToken;
  const { challenge_id, options } = expectOk(await call("POST /passkeys/registration/options", { bearer, body: {} }));
  const body = { challenge_id, credential: authenticator.create(options) };
  expectOk(await call("POST /passkeys/registration/verify", { bearer, body }));
  return { ...session, authenticator };
}

async function signInWith(authenticator: Authenticator) {
  const { challenge_id, options } = expectOk(await call("POST /passkeys/authentication/options", { body: {} }));
  const body = { challenge_id, credential: authenticator.get(options) };
  return sessionOf(expectOk(await call("POST /passkeys/authentication/verify", { body })));
}

test("a passkey sign-in creates a session at aal1 with passkey as its only method", async () => {
  const { authenticator } = await newPasskey();
  const { claims } = await signInWith(authenticator);
  expect(claims.aal).toBe("aal1");
  expect(claims.amr).toEqual([{ method: "passkey", timestamp: expect.any(Number) }]);
});

test("a passkey sign-in creates a session at aal1 even if the user has a second factor, and a TOTP code raises it to aal2", async () => {
  const { authenticator, accessToken } = await newPasskey();
  const factor = await enroll(accessToken);
  await raise(accessToken, factor);
  const session = await signInWith(authenticator);
  expect(session.claims.aal).toBe("aal1");
  const { claims } = await raise(session.accessToken, factor);
  expect(claims.aal).toBe("aal2");
  expect(claims.amr.map((entry: { method: string }) => entry.method).sort()).toEqual(["passkey", "totp"]);
});
