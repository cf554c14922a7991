import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { forgeToken, inAnHour, newSession, signIn } from "./support/accounts.ts";
import { call, expectOk, expectRefusal } from "./support/http.ts";
import { featuresOff } from "./support/settings.ts";
import { challenge, enroll, newRaisedSession } from "./support/totp.ts";
import { describeVariant } from "./support/variant.ts";

const enrollBody = (fields: Record<string, unknown> = {}) => ({ factor_type: "totp", ...fields });
const factorsOf = async (bearer: string) => expectOk(await call("GET /user", { bearer })).factors ?? [];

describe("POST /factors", () => {
  test("enrolling a TOTP factor returns a secret, its otpauth URI, and a QR code as bare SVG", async () => {
    const { account, accessToken } = await newSession();
    const body = enrollBody({ friendly_name: "phone", issuer: "Gatehouse" });
    const factor = expectOk(await call("POST /factors", { bearer: accessToken, body }));
    expect(factor).toMatchObject({ id: expect.any(String), type: "totp", friendly_name: "phone" });
    expect(factor.totp.secret).toMatch(/^[A-Z2-7]{32}$/);
    expect(factor.totp.qr_code.trimStart()).toMatch(/^<(\?xml|svg)/);
    const uri = new URL(factor.totp.uri);
    expect(uri.protocol).toBe("otpauth:");
    expect(decodeURIComponent(uri.pathname)).toContain(`Gatehouse:${account.email}`);
    expect(Object.fromEntries(uri.searchParams)).toMatchObject({
      secret: factor.totp.secret,
      issuer: "Gatehouse",
      algorithm: "SHA1",
      digits: "6",
      period: "30",
    });
  });

  test("enrolling a TOTP factor uses the site's host as the default issuer", async () => {
    const { accessToken } = await newSession();
    const { totp } = expectOk(await call("POST /factors", { bearer: accessToken, body: enrollBody() }));
    expect(new URL(totp.uri).searchParams.get("issuer")).toBe("localhost:3000");
  });

  test("enrolling a TOTP factor adds it to the user's factors as unverified, without the TOTP secret", async () => {
    const { accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken, "phone");
    const answer = await call("GET /user", { bearer: accessToken });
    expect(answer.body.factors).toEqual([
      {
        id: factorId,
        status: "unverified",
        factor_type: "totp",
        friendly_name: "phone",
        phone: "",
        last_challenged_at: null,
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ]);
    expect(answer.text).not.toContain(secret);
  });

  test("refuses a factor with a duplicate name with 422 mfa_factor_name_conflict", async () => {
    const { accessToken } = await newSession();
    await enroll(accessToken, "phone");
    await enroll(accessToken, "tablet");
    const answer = await call("POST /factors", { bearer: accessToken, body: enrollBody({ friendly_name: "phone" }) });
    expectRefusal(answer, 422, "mfa_factor_name_conflict");
  });

  test("refuses a user's eleventh factor with 422 too_many_enrolled_mfa_factors", async () => {
    const { accessToken } = await newSession();
    for (let count = 0; count < 10; count++) await enroll(accessToken, `phone ${count}`);
    const answer = await call("POST /factors", { bearer: accessToken, body: enrollBody({ friendly_name: "more" }) });
    expectRefusal(answer, 422, "too_many_enrolled_mfa_factors");
  });

  test("enrolling a factor requires aal2 if the user has a verified factor: 403 insufficient_aal", async () => {
    const { account, accessToken } = await newRaisedSession();
    const { accessToken: low } = await signIn(account);
    const body = enrollBody({ friendly_name: "second" });
    expectRefusal(await call("POST /factors", { bearer: low, body }), 403, "insufficient_aal");
    expectOk(await call("POST /factors", { bearer: accessToken, body }));
  });

  test("POST /factors refuses a missing or unsupported factor type with 400 validation_failed", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await call("POST /factors", { bearer: accessToken, body: {} }), 400, "validation_failed");
    const body = { factor_type: "sms" };
    expectRefusal(await call("POST /factors", { bearer: accessToken, body }), 400, "validation_failed");
  });

  test("refuses to enroll a factor of an anonymous user with 403 no_authorization", async () => {
    const { account, id } = await newSession();
    const claims = { sub: account.id, aud: "authenticated", session_id: id, is_anonymous: true, exp: inAnHour() };
    const answer = await call("POST /factors", { bearer: await forgeToken(claims), body: enrollBody() });
    expectRefusal(answer, 403, "no_authorization");
  });

  test("enrolling a factor requires a bearer token: 401", async () => {
    expectRefusal(await call("POST /factors", { body: enrollBody() }), 401, "no_authorization");
  });
});

describe("POST /factors/:id/challenge", () => {
  test("challenging a factor returns an id and an expiry 300 seconds from now", async () => {
    const { accessToken } = await newSession();
    const { factorId } = await enroll(accessToken);
    const body = expectOk(await call(`POST /factors/${factorId}/challenge`, { bearer: accessToken, body: {} }));
    expect(body).toMatchObject({ id: expect.any(String), type: "totp" });
    expect(Math.abs(body.expires_at - Date.now() / 1_000 - 300)).toBeLessThan(10);
  });

  test("challenging a factor updates its last_challenged_at", async () => {
    const { accessToken } = await newSession();
    const { factorId } = await enroll(accessToken);
    await challenge(accessToken, factorId);
    expect((await factorsOf(accessToken))[0].last_challenged_at).toEqual(expect.any(String));
  });

  test("challenging a factor that does not exist or belongs to another user returns 404 mfa_factor_not_found", async () => {
    const [mine, other] = [await newSession(), await newSession()];
    const { factorId } = await enroll(other.accessToken);
    for (const id of [factorId, randomUUID()]) {
      const answer = await call(`POST /factors/${id}/challenge`, { bearer: mine.accessToken, body: {} });
      expectRefusal(answer, 404, "mfa_factor_not_found");
    }
  });

  test("challenging a factor with an invalid UUID returns 404 validation_failed", async () => {
    const { accessToken } = await newSession();
    const answer = await call("POST /factors/1/challenge", { bearer: accessToken, body: {} });
    expectRefusal(answer, 404, "validation_failed");
  });
});

describeVariant("enrollment off", featuresOff, (url) => {
  test("with TOTP off, enrolling gets 422 mfa_totp_enroll_not_enabled, and challenging gets 422 mfa_totp_verify_not_enabled", async () => {
    const { accessToken } = await newSession();
    const { factorId } = await enroll(accessToken);
    const options = { bearer: accessToken, url: url() };
    const enrolled = await call("POST /factors", { ...options, body: enrollBody({ friendly_name: "x" }) });
    expectRefusal(enrolled, 422, "mfa_totp_enroll_not_enabled");
    const challenged = await call(`POST /factors/${factorId}/challenge`, { ...options, body: {} });
    expectRefusal(challenged, 422, "mfa_totp_verify_not_enabled");
  });
});
