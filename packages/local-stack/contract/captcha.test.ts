import { describe, expect, test } from "vitest";
import { newAccount, newEmail, newSession, password } from "./support/accounts.ts";
import { captchaSecret } from "./support/captcha-verifier.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { describeVariant } from "./support/variant.ts";

const settings = {
  GOTRUE_SECURITY_CAPTCHA_ENABLED: "true",
  GOTRUE_SECURITY_CAPTCHA_PROVIDER: "turnstile",
  GOTRUE_SECURITY_CAPTCHA_SECRET: captchaSecret,
};
const withToken = (captcha_token: string) => ({ gotrue_meta_security: { captcha_token } });

describe("without a bot challenge", () => {
  test("ignores a bot challenge token in the body if the challenge is off", async () => {
    const { email } = await newAccount();
    const body = { email, password, ...withToken("any-token") };
    expectOk(await call("POST /token?grant_type=password", { body }));
  });
});

describeVariant("with a bot challenge", settings, (url) => {
  const send = (route: string, body: Record<string, unknown>, bearer?: string) =>
    call(route, { body, bearer, url: url() });

  test.each([
    ["POST /signup", { email: "a@example.test", password }],
    ["POST /token?grant_type=password", { email: "a@example.test", password }],
    ["POST /recover", { email: "a@example.test" }],
    ["POST /resend", { type: "signup", email: "a@example.test" }],
    ["POST /otp", { email: "a@example.test", create_user: false }],
    ["POST /magiclink", { email: "a@example.test" }],
    ["POST /passkeys/authentication/options", {}],
  ])("%s requires a bot challenge token: 400 captcha_failed", async (route, body) => {
    expectRefusal(await send(route, body), 400, "captcha_failed");
    expectRefusal(await send(route, { ...body, ...withToken("  ") }), 400, "captcha_failed");
  });

  test("refresh, code exchange, verify, user, factors, passkey verify and authorize need no bot challenge token", async () => {
    const { accessToken, refreshToken } = await newSession();
    expectOk(await send("POST /token?grant_type=refresh_token", { refresh_token: refreshToken }));
    const code = { auth_code: "x", code_verifier: "y" };
    expectRefusal(await send("POST /token?grant_type=pkce", code), 404, "flow_state_not_found");
    expectRefusal(await send("POST /verify", { type: "signup", token_hash: "x" }), 403, "otp_expired");
    expectOk(await send("PUT /user", { data: { a: 1 } }, accessToken));
    expectOk(await send("POST /factors", { factor_type: "totp" }, accessToken));
    expectRefusal(await send("POST /passkeys/authentication/verify", {}), 400, "validation_failed");
    expectRefusal(await call("GET /authorize?provider=none", { url: url() }), 400, "validation_failed");
    expectOk(await call("GET /reauthenticate", { bearer: accessToken, url: url() }));
  });

  test("an administrator needs no bot challenge token", async () => {
    expectOk(await admin("POST /signup", { body: { email: newEmail(), password }, url: url() }));
  });

  test("a user's access token does not replace the bot challenge token", async () => {
    const { accessToken } = await newSession();
    const answer = await send("POST /signup", { email: newEmail(), password }, accessToken);
    expectRefusal(answer, 400, "captcha_failed");
  });

  const signUp = (token: string) => send("POST /signup", { email: newEmail(), password, ...withToken(token) });

  test("sends the verifier the secret, bot challenge token and IP address, and accepts a token that the verifier accepts", async () => {
    expectOk(await signUp("good"));
  });

  test("returns 400 captcha_failed with the verifier's error codes for a bot challenge token that the verifier rejects", async () => {
    const answer = await signUp("bad");
    expectRefusal(answer, 400, "captcha_failed");
    expect(answer.body.message).toContain("(invalid-input-response, bad-luck)");
  });

  test("returns 500 unexpected_failure when the bot challenge's verifier is down", async () => {
    expectRefusal(await signUp("down"), 500, "unexpected_failure");
  });
});

describeVariant(
  "with hCaptcha, and a wrong secret",
  { ...settings, GOTRUE_SECURITY_CAPTCHA_PROVIDER: "hcaptcha", GOTRUE_SECURITY_CAPTCHA_SECRET: "wrong" },
  (url) => {
    test("with hCaptcha and a wrong secret, refuses a token with 400 captcha_failed and the verifier's error codes", async () => {
      const body = { email: newEmail(), password, ...withToken("good") };
      const answer = await call("POST /signup", { body, url: url() });
      expectRefusal(answer, 400, "captcha_failed");
      expect(answer.body.message).toContain("(invalid-input-secret)");
    });
  },
);
