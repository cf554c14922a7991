import { expect, test } from "vitest";
import { type MfaFacts, mfaFactsOf, secondStepPath } from "./user.ts";

const facts = (changes: Partial<MfaFacts>): MfaFacts => ({
  required: true,
  satisfied: false,
  enrolled: true,
  policy: "optional",
  requiredSince: null,
  ...changes,
});

test.each([
  { what: "an authenticator", mfa: facts({}), path: "/mfa?returnUrl=%2Fa" },
  {
    what: "required MFA and no authenticator",
    mfa: facts({ enrolled: false, policy: "required" }),
    path: "/mfa/enroll?returnUrl=%2Fa",
  },
  {
    what: "an MFA recovery in progress",
    mfa: facts({ enrolled: false, policy: "recovery_in_progress" }),
    path: "/mfa?returnUrl=%2Fa",
  },
])("with $what, the second step redirects to $path", ({ mfa, path }) => {
  expect(secondStepPath(mfa, "/a")).toBe(path);
});

test.each(["/mfa", "/mfa/app", "/mfa/enroll?returnUrl=%2Fa", "/mfa?returnUrl=%2Fa"])(
  "a pending second step does not redirect requests for %s",
  (destination) => {
    expect(secondStepPath(facts({}), destination)).toBe(destination);
  },
);

test.each(["/mfas", "/mfa/remove?factorId=a", "/mfa/recovery-codes"])(
  "a pending second step redirects requests for %s to /mfa",
  (destination) => {
    expect(secondStepPath(facts({}), destination)).toBe(`/mfa?${new URLSearchParams({ returnUrl: destination })}`);
  },
);

test.each([
  {
    policy: { state: "optional", required: false, since: null, satisfied: true },
    enrolled: false,
    required: false,
  },
  {
    policy: { state: "optional", required: false, since: null, satisfied: false },
    enrolled: true,
    required: true,
  },
  {
    policy: { state: "required", required: true, since: 1_764_374_400, satisfied: false },
    enrolled: false,
    required: true,
  },
] as const)(
  "mfaFactsOf tells whether a second step is required if the MFA policy is $policy.state and enrolled is $enrolled",
  (row) => {
    const { policy, enrolled, required } = row;
    const user = { id: "", email: null, displayName: null, avatarUrl: null, banned: false, deleted: false };
    const session = {
      sessionId: "",
      aal: "aal1",
      user,
      mustReplacePassword: false,
      consoleRole: null,
    } as const;
    expect(mfaFactsOf({ ...session, hasVerifiedFactor: enrolled, policy })).toEqual({
      required,
      satisfied: policy.satisfied,
      enrolled,
      policy: policy.state,
      requiredSince: policy.since && "2025-11-29T00:00:00.000Z",
    });
  },
);

test("a boundary after the last possible date has no time to show, and does not break the account's pages", () => {
  const policy = { state: "required", required: true, since: Number.MAX_SAFE_INTEGER, satisfied: false } as const;
  const user = { id: "", email: null, displayName: null, avatarUrl: null, banned: false, deleted: false };
  const session = { sessionId: "", aal: "aal1", user, mustReplacePassword: false, consoleRole: null } as const;
  expect(mfaFactsOf({ ...session, hasVerifiedFactor: true, policy }).requiredSince).toBeNull();
});
