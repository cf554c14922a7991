import { detour } from "../http/detour.ts";
import type { SessionFacts } from "./session-state.ts";

/** What an account demands beyond the sign-in, and whether a session has proved it. */
export interface MfaFacts {
  /** By policy, or because an authenticator is enrolled: voluntary ones are no decoration. */
  required: boolean;
  satisfied: boolean;
  /** Whether there is a verified authenticator to prove it with. */
  enrolled: boolean;
  policy: "optional" | "required" | "recovery_in_progress";
}

/** What a session's facts say of the second step. */
export function mfaFactsOf({ hasVerifiedFactor, policy }: SessionFacts): MfaFacts {
  return {
    required: policy.required || hasVerifiedFactor,
    satisfied: policy.satisfied,
    enrolled: hasVerifiedFactor,
    // One that nobody can read has been answered with 503 before.
    policy: policy.state === "malformed" ? "recovery_in_progress" : policy.state,
  };
}

/**
 * Where a session goes that has yet to satisfy its account: to the challenge, or to enrollment where there is nothing
 * to challenge. A destination that is on that way is left as it is.
 */
export function secondStepPath({ enrolled, policy }: MfaFacts, destination: string): string {
  if (/^\/mfa(\/enroll|\/recovery|\/app)?(\?|$)/.test(destination)) return destination;
  return detour(enrolled || policy === "recovery_in_progress" ? "/mfa" : "/mfa/enroll", destination);
}
