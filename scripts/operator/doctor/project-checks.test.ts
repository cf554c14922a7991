import { expect, test } from "vitest";
import {
  asksForChallenge,
  judgeBotChallenge,
  judgeKeySet,
  judgeOpenidClients,
  judgePasskeys,
  judgeSkew,
  judgeUsageSums,
} from "./project-checks.ts";

test.each([
  [4_999, "ok"],
  [-4_999, "ok"],
  [5_000, "warn"],
  [-29_999, "warn"],
  [30_000, "fail"],
  [-30_000, "fail"],
])("judges a clock that is %d ms off as %s", (skewMs, level) => {
  expect(judgeSkew(skewMs).level).toBe(level);
});

test.each([
  [0, "ok", "0 min 0 s ago"],
  [75_000, "ok", "1 min 15 s ago"],
  [600_000, "ok", "10 min 0 s ago"],
  [600_001, "warn", "10 minutes ago"],
  [90 * 60_000, "warn", "90 minutes ago"],
  [-1, "warn", "clock was set back"],
  [Number.NaN, "warn", "no runs are summed yet"],
  [undefined, "warn", "no runs are summed yet"],
])("judges sums of runs that end %s ms ago as %s: %s", (ageMs, level, words) => {
  const finding = judgeUsageSums(ageMs);
  expect(finding.level).toBe(level);
  expect(finding.says).toContain(words);
});

test.each([
  [true, true, "ok"],
  [true, false, "fail"],
  [false, true, "fail"],
  [false, false, "warn"],
  [true, undefined, "unseen"],
  [false, undefined, "unseen"],
])("judges the bot challenge settings of our pages (%s) and of the backend (%s) as %s", (here, there, level) => {
  expect(judgeBotChallenge({ here, there }).level).toBe(level);
});

test.each([
  ["a refusal for a missing challenge", { code: 400, error_code: "captcha_failed" }, true],
  ["a refused password", { code: 400, error_code: "invalid_credentials" }, false],
  ["disabled password sign-in", { code: 422, error_code: "email_provider_disabled" }, false],
  ["a rate limit", { code: 429, error_code: "over_request_rate_limit" }, undefined],
  ["a server error", { code: 500, error_code: "unexpected_failure" }, undefined],
  ["a proxy's response", { message: "no Route matched" }, undefined],
  ["no answer", undefined, undefined],
])("reads from %s whether the backend requires a bot challenge: %j → %s", (_, answer, expected) => {
  expect(asksForChallenge(answer)).toBe(expected);
});

test.each([
  [
    "a standby or signing key for ES256",
    { keys: [{ kty: "EC", alg: "ES256" }] },
    ["ok", "unseen"],
    "elliptic-curve key",
  ],
  ["no keys", { keys: [] }, ["fail"], "has no asymmetric signing key"],
  ["a key of another type", { keys: [{ kty: "RSA" }] }, ["fail"], "has no asymmetric signing key"],
  ["no key set", undefined, ["fail"], "cannot be read"],
  ["a proxy's response instead of keys", { message: "no Route matched" }, ["fail"], "cannot be read"],
  ["keys without a type", { keys: [{}] }, ["fail"], "cannot be read"],
])("judges a project's published key set: %s", (_, published, levels, words) => {
  const findings = judgeKeySet(published);
  expect(findings.map(({ level }) => level)).toEqual(levels);
  expect(findings[0]?.says).toContain(words);
});

test.each([
  ["cannot be read", undefined, "unseen"],
  ["has no fault", [], "ok"],
  ["has a fault", ["passkeys are refused"], "fail"],
])("judges a passkey relying party that %s", (_, faults, level) => {
  expect(judgePasskeys(faults).map((finding) => finding.level)).toEqual([level]);
});

test.each([
  { registered: false, secretIsSet: false, levels: [] },
  { registered: false, secretIsSet: true, levels: [] },
  { registered: true, secretIsSet: true, levels: ["ok"] },
  { registered: true, secretIsSet: false, levels: ["fail"] },
])(
  "the APP_SESSION_SECRET check for OpenID clients (registered: $registered, secret set: $secretIsSet) reports $levels",
  ({ levels, ...facts }) => {
    expect(judgeOpenidClients(facts).map(({ level }) => level)).toEqual(levels);
  },
);
