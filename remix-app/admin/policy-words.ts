import type { PolicyState } from "./accounts.ts";

/** What an account's policy is called. */
export const policyWords: Record<PolicyState, string> = {
  optional: "Optional",
  required: "Required",
  recovery_in_progress: "Being reset",
  malformed: "Unreadable",
};
