/**
 * A second implementation of the required-MFA rule (docs/admin-guide.md), written from the rule's text. It grants no
 * access. The rule in supabase/schemas/shared/required-mfa.sql decides, and must agree with this one.
 * required-mfa-vectors.json tests both.
 */

/** A well-formed `platform_required_mfa`. */
export interface RequiredMfaPolicy {
  version: 1;
  required: boolean;
  /** Whole seconds since 1970. Proofs are accepted from the following second. */
  boundary: number;
  /** Like `boundary`, but applies to the sign-in. Null means that a sign-in at any time is accepted. */
  primaryBoundary: number | null;
  recovery: "none" | "in_progress";
  /** Increases with every change. A change must name the current generation, which is 0 before the first change. */
  generation: number;
}

/** The last two states deny access to every session of the account. */
export type RequiredMfaState = "optional" | "required" | "recovery_in_progress" | "malformed";

/** The rule's inputs. Times are whole seconds since 1970. */
export interface MfaFacts {
  appMetadata: unknown;
  claims: { aal?: unknown; amr?: unknown };
  hasVerifiedFactor: boolean;
  /** Whether the factor that raised this session to aal2 still exists and is verified. */
  sessionFactorVerified: boolean;
  /** The time at which the approver used the second factor, if an approval is bound to this session. Null otherwise. */
  approvalSecond: number | null;
  currentSecond: number;
}

/** The amr methods that prove a second factor. */
const secondFactorMethods: ReadonlySet<unknown> = new Set(["totp", "mfa/phone", "mfa/webauthn"]);
/** The amr methods that sign a person in. */
const primaryMethods: ReadonlySet<unknown> = new Set([
  "password",
  "oauth",
  "otp",
  "magiclink",
  "recovery",
  "invite",
  "passkey",
  "sso/saml",
  "web3",
  "email/signup",
  "email_change",
]);

/** Returns an account's policy: null if none was ever set, `malformed` if it can't be read. */
export function readRequiredMfaPolicy(appMetadata: unknown): RequiredMfaPolicy | null | "malformed" {
  const policy = isRecord(appMetadata) ? appMetadata.platform_required_mfa : undefined;
  if (policy === undefined) return null;
  return isPolicy(policy) ? { ...policy, primaryBoundary: policy.primaryBoundary ?? null } : "malformed";
}

/** Returns the state that an account's policy puts it in. */
export function requiredMfaState(appMetadata: unknown): RequiredMfaState {
  const policy = readRequiredMfaPolicy(appMetadata);
  if (policy === null) return "optional";
  if (policy === "malformed") return "malformed";
  if (policy.recovery === "in_progress") return "recovery_in_progress";
  return policy.required ? "required" : "optional";
}

/** Returns whether a session satisfies its account's MFA policy. */
export function satisfiesRequiredMfa(facts: MfaFacts): boolean {
  const { appMetadata, claims, hasVerifiedFactor, sessionFactorVerified, approvalSecond, currentSecond } = facts;
  const policy = readRequiredMfaPolicy(appMetadata);
  const state = requiredMfaState(appMetadata);
  if (policy === "malformed" || state === "recovery_in_progress") return false;
  const required = state === "required" ? policy : null;
  if (required === null && !hasVerifiedFactor) return true;
  // Without a required policy, accepts any proof whose time is not in the future.
  const boundary = required?.boundary ?? -1;
  const within = (second: unknown, after: number) => isWhole(second) && second > after && second <= currentSecond;
  const amrWithin = (methods: ReadonlySet<unknown>, after: number) =>
    Array.isArray(claims.amr) &&
    claims.amr.some((entry) => isRecord(entry) && methods.has(entry.method) && within(entry.timestamp, after));

  const own = sessionFactorVerified && claims.aal === "aal2" && amrWithin(secondFactorMethods, boundary);
  if (!own && !within(approvalSecond, boundary)) return false;
  const primaryBoundary = required?.primaryBoundary ?? null;
  return primaryBoundary === null || amrWithin(primaryMethods, primaryBoundary);
}

function isPolicy(value: unknown): value is RequiredMfaPolicy {
  return (
    isRecord(value) &&
    value.version === 1 &&
    typeof value.required === "boolean" &&
    isWhole(value.boundary) &&
    (value.primaryBoundary === undefined || value.primaryBoundary === null || isWhole(value.primaryBoundary)) &&
    (value.recovery === "none" || value.recovery === "in_progress") &&
    isWhole(value.generation)
  );
}

/** Accepts integers up to the largest that TypeScript and SQL both represent exactly. */
function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
