import { randomInt } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newEmail, newSession, password } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { type CallOptions, call, expectOk, expectRefusal } from "./support/http.ts";
import { addressLimits } from "./support/settings.ts";
import { challenge, enroll } from "./support/totp.ts";
import { describeVariant } from "./support/variant.ts";

const newAddress = () => `198.51.${randomInt(256)}.${randomInt(256)}`;

describe("requests without an address header", () => {
  test("a request without the configured address header is not rate-limited", async () => {
    const headers = { "X-Forwarded-For": newAddress() };
    const send = () => call("POST /verify", { body: { type: "signup", token_hash: "x" }, headers });
    const answers = await Promise.all(Array.from({ length: 40 }, send));
    for (const answer of answers) expectRefusal(answer, 403, "otp_expired");
  });
});

describeVariant("limits by address", addressLimits, (url) => {
  /** Sends 45 concurrent requests. @returns how many were allowed */
  async function burst(route: string, options: CallOptions, address = newAddress()): Promise<number> {
    const headers = { "X-Forwarded-For": address };
    const answers = await Promise.all(
      Array.from({ length: 45 }, () => call(route, { url: url(), ...options, headers })),
    );
    for (const answer of answers) expect(answer.status, answer.text).toBeLessThan(500);
    const refused = answers.filter((answer) => answer.status === 429);
    for (const answer of refused) expectRefusal(answer, 429, "over_request_rate_limit");
    return answers.length - refused.length;
  }

  // The server may allow a few more requests, because the limit refills during the burst.
  const expectThirty = (count: number) => {
    expect(count).toBeGreaterThanOrEqual(30);
    expect(count).toBeLessThanOrEqual(36);
  };

  test.each<[string, CallOptions]>([
    ["POST /verify", { body: { type: "signup", token_hash: "x" } }],
    ["GET /verify?type=signup&token=x", {}],
    ["POST /recover", { body: { email: "a@example.test" } }],
    ["POST /resend", { body: { type: "signup", email: "a@example.test" } }],
    ["POST /otp", { body: { email: "a@example.test", create_user: false } }],
    ["POST /signup", { body: { email: "none", password } }],
    ["POST /token?grant_type=pkce", { body: { auth_code: "x", code_verifier: "y" } }],
    ["POST /passkeys/authentication/options", { body: {} }],
  ])("%s allows 30 concurrent requests from one address, then returns 429", async (route, options) => {
    expectThirty(await burst(route, options));
  });

  test("PUT /user allows 30 requests from one address", async () => {
    const { accessToken } = await newSession();
    expectThirty(await burst("PUT /user", { bearer: accessToken, body: { email: "none" } }));
  });

  // Challenges are sent one after the other, since concurrent challenges of one factor can deadlock in Supabase Auth.
  test("a factor can be challenged 30 times from one address", async () => {
    const { accessToken: bearer } = await newSession();
    const { factorId } = await enroll(bearer);
    const headers = { "X-Forwarded-For": newAddress() };
    const statuses: number[] = [];
    while (statuses.length < 40 && statuses.at(-1) !== 429) {
      const path = `POST /factors/${factorId}/challenge`;
      statuses.push((await call(path, { url: url(), bearer, body: {}, headers })).status);
    }
    expect(statuses.at(-1)).toBe(429);
    expectThirty(statuses.length - 1);
  });

  test("a factor can be verified 30 times from one address", async () => {
    const { accessToken } = await newSession();
    const { factorId } = await enroll(accessToken);
    const challenge_id = await challenge(accessToken, factorId);
    const body = { challenge_id, code: "abcdef" };
    expectThirty(await burst(`POST /factors/${factorId}/verify`, { bearer: accessToken, body }));
  });

  test("each kind of request and each address has its own rate-limit bucket", async () => {
    const address = newAddress();
    const options = { body: { type: "signup", token_hash: "x" } };
    await burst("POST /verify", options, address);
    const other = { url: url(), ...options };
    const elsewhere = await call("POST /verify", { ...other, headers: { "X-Forwarded-For": newAddress() } });
    expectRefusal(elsewhere, 403, "otp_expired");
    const body = { email: newEmail() };
    expectOk(await call("POST /recover", { url: url(), body, headers: { "X-Forwarded-For": address } }));
  });

  test("rate limits use the first of several IP addresses in the address header", async () => {
    const address = newAddress();
    const options = { body: { type: "signup", token_hash: "x" } };
    await burst("POST /verify", options, `${address}, 10.0.0.1`);
    const answer = await call("POST /verify", {
      url: url(),
      ...options,
      headers: { "X-Forwarded-For": `${address}, 10.9.9.9` },
    });
    expectRefusal(answer, 429, "over_request_rate_limit");
  });

  test("requests without the address header are not rate-limited", async () => {
    const send = () => call("POST /verify", { url: url(), body: { type: "signup", token_hash: "x" } });
    for (const answer of await Promise.all(Array.from({ length: 40 }, send))) {
      expectRefusal(answer, 403, "otp_expired");
    }
  });
});

describeVariant("addresses from Sb-Forwarded-For", addressLimits, (url) => {
  const verify = (headers: Record<string, string>) =>
    call("POST /verify", { url: url(), body: { type: "signup", token_hash: "x" }, headers });

  test("addresses from Sb-Forwarded-For are rate-limited and take precedence over X-Forwarded-For", async () => {
    const address = newAddress();
    const headers = () => ({ "Sb-Forwarded-For": address, "X-Forwarded-For": newAddress() });
    const answers = await Promise.all(Array.from({ length: 45 }, () => verify(headers())));
    expect(answers.filter((answer) => answer.status === 429).length).toBeGreaterThan(8);
    expectRefusal(await verify({ "Sb-Forwarded-For": newAddress() }), 403, "otp_expired");
  });

  test("an invalid address in Sb-Forwarded-For is ignored", async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => verify({ "Sb-Forwarded-For": "someone" })));
    for (const answer of answers) expectRefusal(answer, 403, "otp_expired");
  });

  test("the address from Sb-Forwarded-For is recorded in the session", async () => {
    const { id, refreshToken } = await newSession();
    const headers = { "Sb-Forwarded-For": "203.0.113.77", "X-Forwarded-For": newAddress() };
    const body = { refresh_token: refreshToken };
    expectOk(await call("POST /token?grant_type=refresh_token", { url: url(), body, headers }));
    expect(await sql("select host(ip) as ip from auth.sessions where id = $1", [id])).toEqual([{ ip: "203.0.113.77" }]);
  });
});
