import { expect, test } from "vitest";
import { type MfaFacts, mfaFactsOf, secondStepPath } from "./user.ts";

const facts = (changes: Partial<MfaFacts>): MfaFacts => ({
  required: true,
  satisfied: false,
  enrolled: true,
  policy: "optional",
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
    policy: { state: "optional", required: false, satisfied: true },
    enrolled: false,
    required: false,
  },
  {
    policy: { state: "optional", required: false, satisfied: false },
    enrolled: true,
    required: true,
  },
  {
    policy: { state: "required", required: true, satisfied: false },
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
      infrastructureAdmin: false,
    } as const;
    expect(mfaFactsOf({ ...session, hasVerifiedFactor: enrolled, policy })).toEqual({
      required,
      satisfied: policy.satisfied,
      enrolled,
      policy: policy.state,
    });
  },
);
