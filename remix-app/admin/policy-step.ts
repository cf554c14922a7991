import type { AccountPolicy } from "./mfa-policy.ts";

/** The changes of an account's second factor, by their last part of the address. */
export const policySteps = {
  require: { title: "Require MFA", done: "MFA is now required for this account." },
  "make-optional": {
    title: "Make MFA optional",
    done: "MFA is now optional for this account. Its authenticators stay.",
  },
  reset: { title: "Reset authenticators", done: "The authenticators were removed and all sessions ended." },
} as const;

export type PolicyStep = keyof typeof policySteps;

/** What of the three can be asked for now, in the order of the page. */
export function openSteps({ state, locks }: Pick<AccountPolicy, "state" | "locks">): PolicyStep[] {
  const policy: PolicyStep[] =
    locks.policy || state === "recovery_in_progress" ? [] : [state === "required" ? "make-optional" : "require"];
  return locks.reset ? policy : [...policy, "reset"];
}
