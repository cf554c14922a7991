import fc from "fast-check";
import { expect, test } from "vitest";
import { newSession } from "./support/accounts.ts";
import { call } from "./support/http.ts";
import { target } from "./support/target.ts";

/** Total number of generated bodies, and how many are sent concurrently. */
const bodies = 5_000;
const lanes = 12;
const slowestMs = 5_000;

const nil = "00000000-0000-0000-0000-000000000000";
const routes = [
  "POST /signup",
  "POST /token?grant_type=password",
  "POST /token?grant_type=refresh_token",
  "POST /token?grant_type=pkce",
  "POST /token",
  "POST /verify",
  "POST /recover",
  "POST /resend",
  "POST /otp",
  "POST /magiclink",
  "PUT /user",
  "POST /factors",
  `POST /factors/${nil}/challenge`,
  `POST /factors/${nil}/verify`,
  `DELETE /factors/${nil}`,
  "POST /passkeys/registration/options",
  "POST /passkeys/registration/verify",
  "POST /passkeys/authentication/options",
  "POST /passkeys/authentication/verify",
  `PATCH /passkeys/${nil}`,
  `DELETE /user/identities/${nil}`,
  "POST /callback",
  "POST /admin/users",
  `PUT /admin/users/${nil}`,
  `DELETE /admin/users/${nil}`,
  "POST /admin/generate_link",
  "POST /no-such-route",
];

const fields = [
  ..."email phone password type token token_hash redirect_to data user_metadata app_metadata nonce channel".split(" "),
  ..."code_challenge code_challenge_method auth_code code_verifier refresh_token create_user friendly_name".split(" "),
  ..."factor_type issuer challenge_id code credential id role aud ban_duration password_hash email_confirm".split(" "),
  ..."should_soft_delete new_email current_password gotrue_meta_security state __proto__ constructor".split(" "),
];

const telling = fc.constantFrom<unknown>(
  "",
  "a@b",
  "unknown@example.test",
  "signup",
  "recovery",
  "email_change",
  "totp",
  "none",
  "1h",
  "-9223372036854775808h",
  "s256",
  "x".repeat(43),
  "abcdefghijkl",
  nil,
  "a\u0000b",
  "\ud800",
  "'; drop table auth.users; --",
  "%00",
  "../../etc/passwd",
  "<script>",
  "💣".repeat(300),
  null,
  true,
  -1,
  1e308,
  [],
  {},
);
const value = fc.oneof(
  { weight: 4, arbitrary: telling },
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 4 }) },
);
const json = fc
  .dictionary(fc.constantFrom(...fields), value, { maxKeys: 8, noNullPrototype: true })
  .map((body) => JSON.stringify(body));
const body = fc.oneof(
  { weight: 12, arbitrary: json },
  { weight: 2, arbitrary: fc.json({ maxDepth: 5 }) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 60 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 5_000 }).map((depth) => "[".repeat(depth) + "]".repeat(depth)) },
);
const request = fc.record({
  route: fc.constantFrom(...routes),
  body,
  who: fc.constantFrom("anonymous", "user", "administrator", "garbage"),
  contentType: fc.constantFrom(
    "application/json",
    "application/json",
    "application/x-www-form-urlencoded",
    "text/plain",
  ),
});

test("handles 5,000 generated bodies over all routes without a server error, a hang or exposed internals", async () => {
  const { accessToken } = await newSession();
  const bearers: Record<string, string | undefined> = {
    user: accessToken,
    administrator: target.serviceKey,
    garbage: "eyJhbGciOiJub25lIn0.e30.",
  };
  const requests = fc.sample(request, { numRuns: bodies, seed: 20_260_801 });
  const failures: string[] = [];
  const lane = async () => {
    for (let next = requests.pop(); next; next = requests.pop()) {
      const started = performance.now();
      const answer = await call(next.route, {
        rawBody: next.body,
        bearer: bearers[next.who],
        headers: { "Content-Type": next.contentType },
      });
      const tookMs = performance.now() - started;
      const leaks = /node_modules|\.ts:\d+|\bat \w+ \(|syntax error at|relation "|select \* from|violates/i;
      const failed = answer.status >= 500 && answer.body?.code !== "not_implemented";
      if (failed || leaks.test(answer.text) || tookMs > slowestMs) {
        failures.push(`${next.who} ${next.route} ${next.body.slice(0, 400)} → ${answer.status} ${answer.text}`);
      }
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  expect(failures).toEqual([]);
}, 60_000);
