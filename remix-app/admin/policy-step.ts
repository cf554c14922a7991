import type { AccountPolicy } from "./mfa-policy.ts";

/** Changes to an account's second factor, by the last segment of their URL, and whether they lock people out. */
export const mfaPolicyChanges = {
  require: { title: "Require MFA", done: "MFA is now required for this account.", destroys: true },
  "make-optional": {
    title: "Make MFA optional",
    done: "MFA is now optional for this account. Its authenticators stay.",
    destroys: false,
  },
  reset: {
    title: "Reset authenticators",
    done: "The authenticators were removed and all sessions ended.",
    destroys: true,
  },
} as const;

export type PolicyStep = keyof typeof mfaPolicyChanges;

/** Returns which of the three steps are available now, in the order of the page. */
export function listAvailableSteps({ state, locks }: Pick<AccountPolicy, "state" | "locks">): PolicyStep[] {
  const policy: PolicyStep[] =
    locks.policy || state === "recovery_in_progress" ? [] : [state === "required" ? "make-optional" : "require"];
  return locks.reset ? policy : [...policy, "reset"];
}
