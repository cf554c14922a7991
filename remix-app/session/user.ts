import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import type { SupabaseClient } from "@supabase/supabase-js";
import type { Claims } from "#shared/claims.ts";
import { problem } from "../http/problem.ts";
import { destinationOf, detour } from "../http/redirect-target.ts";
import { createDataClient } from "../supabase/data-api.ts";
import { clearApprovalCookie, heldApproval } from "./cookies.ts";
import { keepForm } from "./kept-form.ts";
import type { SessionFacts } from "./session-state.ts";

/** How long a sign-in counts as fresh for changes that matter. */
export const freshSignInMs = 10 * 60 * 1000;

/** The signed-in user of a request. */
export interface User {
  id: string;
  email: string;
  displayName: string | null;
  avatarUrl: string | null;
  sessionId: string;
  aal: "aal1" | "aal2" | "aal3";
  /** When the session last proved who it is: by a code where an authenticator is enrolled, else by a sign-in. */
  provenAt: Date;
  mfa: MfaFacts;
  /** Whether the session may do nothing but replace its password, which is easy to guess. */
  mustReplacePassword: boolean;
  infrastructureAdmin: boolean;
  /** The Data API as this user, under row-level security. */
  data: SupabaseClient;
}

/** A user to read for: whose data, in which session. */
export type Reader = Pick<User, "id" | "sessionId" | "data">;

/**
 * The user of this request, or null. A session that the database no longer knows is taken from the browser.
 * @throws Response 503 AUTH_UNAVAILABLE where a session was brought and nobody could judge it; its cookies stay
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
    provenAt: provenAt(claims.amr, { enrolled: facts.hasVerifiedFactor }),
    mfa: mfaOf(context, { facts, via: auth.via }),
    mustReplacePassword: facts.mustReplacePassword,
    infrastructureAdmin: facts.infrastructureAdmin,
  };
}

/**
 * What a session still has to prove. A mobile approval counts only with its cookie, so never for a bearer; a cookie that
 * does not help is cleared.
 */
function mfaOf(context: AppLoadContext, { facts, via }: { facts: SessionFacts; via: "cookie" | "bearer" }): MfaFacts {
  const mfa = mfaFactsOf(facts);
  const held = via === "cookie" ? heldApproval(context, facts.sessionId) : "none";
  const satisfied = mfa.satisfied && (!facts.policy.byApproval || held === "held");
  if (held === "stale" || (held === "held" && !satisfied)) clearApprovalCookie(context);
  return { ...mfa, satisfied };
}

/** What pages call whoever looks at them: by the email, where the account has one. */
export function shownAs({ email, displayName }: Pick<User, "email" | "displayName">): string {
  return email || displayName || "your account";
}

/** Whether the user's last proof is recent enough for a change that matters. */
export function isFresh(user: User): boolean {
  return Date.now() - user.provenAt.getTime() <= freshSignInMs;
}

/** What a route admits that other routes refuse. */
export interface Admission {
  /** Also a session that has to replace its password first. */
  replacesPassword?: boolean;
}

/**
 * The user of this request, whose session satisfies what their account demands.
 * @throws Response a redirect to the challenge or to enrollment that keeps the destination, where a second step is due;
 * for APIs and bearer callers 403 MFA_REQUIRED
 * @throws Response a redirect to the page that replaces the password, for a session that began with one that is easy to
 * guess; for APIs and bearer callers 403 FORBIDDEN
 * @throws Response a redirect to the sign-in page that keeps the destination; for APIs and bearer callers 401
 * @throws Response 503 AUTH_UNAVAILABLE, as {@link getUser}
 */
export async function requireUser(
  context: AppLoadContext,
  request: Request,
  { replacesPassword = false }: Admission = {},
): Promise<User> {
  const user = await getUser(context);
  if (user?.mfa.satisfied && (replacesPassword || !user.mustReplacePassword)) return user;
  const { requestId } = context;
  const destination = destinationOf(request, context);
  if (user?.mfa.satisfied) {
    if (takesPages(context, request)) throw redirect(replacePasswordPath(destination));
    throw problem("FORBIDDEN", {
      requestId,
      detail: "This account’s password is too easy to guess. Change it at /reset-password first.",
    });
  }
  if (!takesPages(context, request)) {
    if (user) throw problem("MFA_REQUIRED", { requestId });
    throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
  }
  throw redirect(user ? secondStepPath(user.mfa, destination) : detour("/login", destination));
}

/**
 * The user of this request, whose proof of who they are is fresh enough for a change that matters.
 * @param options.keepsForm of an action whose form holds no secret: what was typed waits for its sender on its page
 * (takeForm)
 * @throws Response a redirect to the step-up page that keeps the destination, where it is older than ten minutes; for
 * APIs and bearer callers 403 STEP_UP_REQUIRED
 * @throws Response as {@link requireUser}
 */
export async function requireFreshUser(
  context: AppLoadContext,
  request: Request,
  { keepsForm = false, ...admission }: { keepsForm?: boolean } & Admission = {},
): Promise<User> {
  const user = await requireUser(context, request, admission);
  if (isFresh(user)) return user;
  if (takesPages(context, request)) {
    const destination = destinationOf(request, context);
    if (keepsForm) await keepForm(context, { request, userId: user.id, page: destination });
    throw redirect(detour("/step-up", destination));
  }
  const detail = "Confirm your identity again, then repeat the request.";
  throw problem("STEP_UP_REQUIRED", { requestId: context.requestId, detail });
}

/** Whether the caller can be sent to a page: a browser on one. */
function takesPages({ surface }: AppLoadContext, request: Request): boolean {
  return surface === "page" && !request.headers.has("authorization");
}

function unavailable(requestId: string): Response {
  return problem("AUTH_UNAVAILABLE", { requestId, headers: { "Retry-After": "5" } });
}

/** What an account demands beyond the sign-in, and whether a session has proved it. */
export interface MfaFacts {
  /** By policy, or because an authenticator is enrolled. */
  required: boolean;
  satisfied: boolean;
  /** Whether there is a verified authenticator to prove it with. */
  enrolled: boolean;
  policy: "optional" | "required" | "recovery_in_progress";
}

/** Returns what a session's facts mean for the second step. */
export function mfaFactsOf({ hasVerifiedFactor, policy }: SessionFacts): MfaFacts {
  return {
    required: policy.required || hasVerifiedFactor,
    satisfied: policy.satisfied,
    enrolled: hasVerifiedFactor,
    // A malformed policy has been answered with 503 before.
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

/** Returns the page that replaces a password that is easy to guess, and then leads to the destination. */
export function replacePasswordPath(destination: string): string {
  if (/^\/reset-password(\?|$)/.test(destination)) return destination;
  return `/reset-password?${new URLSearchParams({ listed: "", returnUrl: destination })}`;
}

/** Methods of a second factor in `amr`. */
const secondFactors: ReadonlySet<string> = new Set(["totp", "mfa/phone", "mfa/webauthn"]);

/**
 * When a session last proved who it is by what counts for its account: by the second factor where one is enrolled, else
 * by a sign-in. A refresh proves nothing, and neither does a factor that is gone.
 * @returns the beginning of 1970 where it never did
 */
export function provenAt(amr: Claims["amr"], { enrolled }: { enrolled: boolean }): Date {
  const counting = amr.filter(({ method }) => secondFactors.has(method) === enrolled);
  return new Date(Math.max(0, ...counting.map(({ timestamp }) => timestamp)) * 1000);
}

/**
 * The token's claims of a browser that asks: its session comes by cookie. Whether the session is alive is not asked.
 * @throws Response 401 without a session, 403 for a Bearer caller, 503 where the session could not be judged
 */
export function requireBrowser({ session, requestId }: AppLoadContext): Claims {
  const { auth } = session;
  if (auth.status === "unavailable") throw problem("AUTH_UNAVAILABLE", { requestId });
  if (auth.status === "anonymous") throw problem("UNAUTHENTICATED", { requestId });
  if (auth.via === "cookie") return auth.claims;
  throw problem("FORBIDDEN", { requestId, detail: "This call takes a browser’s session cookie, not a bearer token." });
}

/**
 * Who answers from a phone: its session comes as a Bearer, and satisfies what the account demands.
 * @throws Response 401 without a session, 403 for a cookie's and where a second factor is due, 503
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
