import type { AccountPolicy } from "./mfa-policy.ts";

/** The changes of an account's second factor, by their last part of the address. */
export const policySteps = {
  require: { title: "Require MFA", done: "MFA is required of this account from now on." },
  "make-optional": { title: "Make MFA optional", done: "MFA is optional for this account. Its authenticators stay." },
  reset: { title: "Reset authenticators", done: "The authenticators are removed, and every session is ended." },
} as const;

export type PolicyStep = keyof typeof policySteps;

/** What of the three can be asked for now, in the order of the page. */
export function openSteps({ state, locks }: Pick<AccountPolicy, "state" | "locks">): PolicyStep[] {
  const policy: PolicyStep[] =
    locks.policy || state === "recovery_in_progress" ? [] : [state === "required" ? "make-optional" : "require"];
  return locks.reset ? policy : [...policy, "reset"];
}
