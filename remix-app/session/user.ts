import { type AppLoadContext, redirect } from "@remix-run/node";
import type { PostgrestClient } from "@supabase/postgrest-js";
import type { Claims } from "#shared/claims.ts";
import { problem } from "../http/problem.ts";
import { addReturnUrl, getDestination } from "../http/redirect-target.ts";
import { createDataClient } from "../supabase/data-api.ts";
import type { ConsoleRole } from "./console-role.ts";
import { clearApprovalCookie, readApprovalValidity } from "./cookies.ts";
import { saveForm } from "./saved-form.ts";
import type { SessionFacts } from "./session-state.ts";

/** How long a sign-in counts as recent enough for sensitive changes. */
export const freshSignInMs = 10 * 60 * 1000;

export interface User {
  id: string;
  email: string;
  displayName: string | null;
  avatarUrl: string | null;
  sessionId: string;
  aal: "aal1" | "aal2" | "aal3";
  /**
   * When the session last confirmed the person's identity: by a code if an authenticator is enrolled, else by a
   * sign-in.
   */
  provenAt: Date;
  mfa: MfaFacts;
  /** Whether the session can only replace the account's password, because the password is easy to guess. */
  mustReplacePassword: boolean;
  /** The person's role in the console, as its row says now. */
  consoleRole: ConsoleRole | null;
  /** A Data API client that acts as this user, under row-level security. */
  data: PostgrestClient;
}

/** A user whose data is read, and the session that reads it. */
export type UserDataReader = Pick<User, "id" | "sessionId" | "data">;

/**
 * Returns the user of this request, or null. Removes a session from the browser if the database does not know it any
 * more.
 * @throws Response 503 AUTH_UNAVAILABLE if the request's session could not be verified; its cookies stay
 */
export async function getUser(context: AppLoadContext): Promise<User | null> {
  const { session, env, requestId } = context;
  const { auth } = session;
  if (auth.status === "anonymous") return null;
  if (auth.status === "unavailable") throw unavailable(requestId);
  const state = await session.state();
  if (state.status === "unavailable") throw unavailable(requestId);
  if (state.status === "over" && auth.via === "cookie") session.clear();
  if (state.status !== "alive") return null;
  const { facts } = state;
  const { accessToken, claims } = auth;
  return {
    data: createDataClient(env, { accessToken, approvalProof: session.approvalProof }),
    id: claims.sub,
    email: facts.user.email ?? "",
    displayName: facts.user.displayName,
    avatarUrl: facts.user.avatarUrl,
    sessionId: claims.session_id,
    aal: facts.aal,
    provenAt: getLastProofTime(claims.amr, { enrolled: facts.hasVerifiedFactor }),
    mfa: readMfaFacts(context, { facts, via: auth.via }),
    mustReplacePassword: facts.mustReplacePassword,
    consoleRole: facts.consoleRole,
  };
}

/** Returns what a session still has to prove. Clears the cookie of a mobile approval if it is stale or insufficient. */
function readMfaFacts(
  context: AppLoadContext,
  { facts, via }: { facts: SessionFacts; via: "cookie" | "bearer" },
): MfaFacts {
  const mfa = mfaFactsOf(facts);
  const approval = via === "cookie" ? readApprovalValidity(context, facts.sessionId) : "none";
  if (approval === "stale" || (approval === "valid" && !mfa.satisfied)) clearApprovalCookie(context);
  return mfa;
}

/** Returns the user's email or, without an email, their display name. */
export function getUserLabel({ email, displayName }: Pick<User, "email" | "displayName">): string {
  return email || displayName || "your account";
}

/** Returns whether the user's last proof is recent enough for a sensitive change. */
export function isFresh(user: User): boolean {
  return Date.now() - user.provenAt.getTime() <= freshSignInMs;
}

/** The sessions that a route accepts although other routes refuse them. */
export interface Admission {
  /** Accepts a session whose user must replace an easily guessed password before using other routes. */
  replacesPassword?: boolean;
}

/**
 * Returns the user of this request, whose session satisfies the account's requirements.
 * @throws Response if a second step is pending: a redirect to the challenge or to enrollment that keeps the
 * destination; for APIs and bearer callers 403 MFA_REQUIRED
 * @throws Response for a session that began with a password that is easy to guess: a redirect to the page that replaces
 * it; for APIs and bearer callers 403 FORBIDDEN
 * @throws Response without a session: a redirect to the sign-in page that keeps the destination; for APIs and bearer
 * callers 401
 * @throws Response 503 AUTH_UNAVAILABLE, see {@link getUser}
 */
export async function requireUser(
  context: AppLoadContext,
  request: Request,
  { replacesPassword = false }: Admission = {},
): Promise<User> {
  const user = await getUser(context);
  if (user?.mfa.satisfied && (replacesPassword || !user.mustReplacePassword)) return user;
  const { requestId } = context;
  const destination = getDestination(request, context);
  if (user?.mfa.satisfied) {
    if (isPageRequest(context, request)) throw redirect(replacePasswordPath(destination));
    throw problem("FORBIDDEN", {
      requestId,
      detail: "This account’s password is too easy to guess. Change it at /reset-password first.",
    });
  }
  if (!isPageRequest(context, request)) {
    if (user) throw problem("MFA_REQUIRED", { requestId });
    throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
  }
  throw redirect(user ? secondStepPath(user.mfa, destination) : addReturnUrl("/login", destination));
}

/**
 * Returns the user of this request if their last proof of identity is recent enough for a sensitive change.
 * @param options.keepsForm set for a form without secrets: stores the typed values, so that `takeForm` can restore them
 * after the step-up. The form itself if its body has been read
 * @throws Response if the proof is older than ten minutes: a redirect to the step-up page that keeps the destination;
 * for APIs and bearer callers 403 STEP_UP_REQUIRED
 * @throws Response like {@link requireUser}
 */
export async function requireFreshUser(
  context: AppLoadContext,
  request: Request,
  { keepsForm = false, ...admission }: { keepsForm?: boolean | FormData } & Admission = {},
): Promise<User> {
  const user = await requireUser(context, request, admission);
  if (isFresh(user)) return user;
  if (isPageRequest(context, request)) {
    const destination = getDestination(request, context);
    const form = keepsForm instanceof FormData ? keepsForm : undefined;
    if (keepsForm) await saveForm(context, { request, userId: user.id, page: destination, form });
    throw redirect(addReturnUrl("/step-up", destination));
  }
  throw stepUpRequired(context);
}

function stepUpRequired({ requestId }: AppLoadContext): Response {
  const detail = "Confirm your identity again, then repeat the request.";
  return problem("STEP_UP_REQUIRED", { requestId, detail });
}

/** Returns whether the caller is a browser that loads a page, so that it can be redirected to another page. */
function isPageRequest({ surface }: AppLoadContext, request: Request): boolean {
  return surface === "page" && !request.headers.has("authorization");
}

function unavailable(requestId: string): Response {
  return problem("AUTH_UNAVAILABLE", { requestId });
}

/** The second step that an account requires, and whether the session has passed it. */
export interface MfaFacts {
  /** Required by policy, or because an authenticator is enrolled. */
  required: boolean;
  satisfied: boolean;
  /** Whether there is a verified authenticator. */
  enrolled: boolean;
  policy: "optional" | "required" | "recovery_in_progress";
  /** The time, in RFC 3339, from which an administrator's policy accepts only proofs by a second factor. */
  requiredSince: string | null;
}

/** The last second of a `Date`. A policy accepts larger boundaries, which no proof can reach. */
const maxDateSecond = 8_640_000_000_000;

/** Returns the second step that the session's account requires, and whether the session has passed it. */
export function mfaFactsOf({ hasVerifiedFactor, policy }: SessionFacts): MfaFacts {
  return {
    required: policy.required || hasVerifiedFactor,
    satisfied: policy.satisfied,
    enrolled: hasVerifiedFactor,
    requiredSince:
      policy.since === null || policy.since > maxDateSecond ? null : new Date(policy.since * 1_000).toISOString(),
    // Never `malformed` here: requests of an account with a malformed policy were already answered with 503.
    policy: policy.state === "malformed" ? "recovery_in_progress" : policy.state,
  };
}

/**
 * Returns the page for a session that does not satisfy its account's MFA policy: the challenge, or enrollment if the
 * account has no authenticator. If the destination is already an MFA page, returns the destination unchanged.
 */
export function secondStepPath({ enrolled, policy }: MfaFacts, destination: string): string {
  if (/^\/mfa(\/enroll|\/recovery|\/app)?(\?|$)/.test(destination)) return destination;
  return addReturnUrl(enrolled || policy === "recovery_in_progress" ? "/mfa" : "/mfa/enroll", destination);
}

/**
 * Returns the path of the page that replaces an easily guessed password. The page then continues to the destination.
 */
export function replacePasswordPath(destination: string): string {
  if (/^\/reset-password(\?|$)/.test(destination)) return destination;
  return `/reset-password?${new URLSearchParams({ listed: "", returnUrl: destination })}`;
}

/** The `amr` methods of a second factor. */
const secondFactors: ReadonlySet<string> = new Set(["totp", "mfa/phone", "mfa/webauthn"]);

/**
 * Returns when a session last confirmed the person's identity by the method that its account requires: the second
 * factor if one is enrolled, else a sign-in. Neither a refresh nor a removed factor counts.
 * @returns the beginning of 1970 if it never did
 */
export function getLastProofTime(amr: Claims["amr"], { enrolled }: { enrolled: boolean }): Date {
  const counting = amr.filter(({ method }) => secondFactors.has(method) === enrolled);
  return new Date(Math.max(0, ...counting.map(({ timestamp }) => timestamp)) * 1000);
}

/**
 * Returns the claims of a request from a browser, whose session comes by cookie. Does not check whether the session is
 * active.
 * @throws Response 401 without a session, 403 for a bearer caller, 503 if the session could not be verified
 */
export function requireBrowser({ session, requestId }: AppLoadContext): Claims {
  const { auth } = session;
  if (auth.status === "unavailable") throw problem("AUTH_UNAVAILABLE", { requestId });
  if (auth.status === "anonymous") throw problem("UNAUTHENTICATED", { requestId });
  if (auth.via === "cookie") return auth.claims;
  throw problem("FORBIDDEN", { requestId, detail: "This call takes a browser’s session cookie, not a bearer token." });
}

/**
 * Returns the user of a phone, whose session comes as a bearer token and satisfies the account's requirements.
 * @throws Response 401 without a session, 403 for a cookie or a pending second factor, 503
 */
export async function requirePhone(context: AppLoadContext, request: Request): Promise<{ user: User; claims: Claims }> {
  const { session, requestId } = context;
  const { auth } = session;
  const user = await requireUser(context, request);
  if (auth.status === "authenticated" && auth.via === "bearer") return { user, claims: auth.claims };
  throw problem("FORBIDDEN", {
    requestId,
    detail: "This call takes a bearer token from a phone. Use the app on your phone.",
  });
}

/**
 * Like {@link requirePhone}, for an approval that outlives the phone's session.
 * @throws Response 403 STEP_UP_REQUIRED if the phone's last proof of identity is older than ten minutes
 */
export async function requireFreshPhone(context: AppLoadContext, request: Request): Promise<User> {
  const { user } = await requirePhone(context, request);
  if (!isFresh(user)) throw stepUpRequired(context);
  return user;
}
