import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import type { SupabaseClient } from "@supabase/supabase-js";
import { problem } from "../http/problem.ts";
import { redirectTarget } from "../http/redirect-target.ts";
import { createDataClient } from "./clients.ts";
import { freshSignInMs } from "./limits.ts";

/** The signed-in user of a request. */
export interface User {
  id: string;
  email: string;
  displayName: string | null;
  avatarUrl: string | null;
  sessionId: string;
  aal: "aal1" | "aal2" | "aal3";
  /** When the session last proved who it is, by whatever method. */
  provenAt: Date;
  mfa: { required: boolean; satisfied: boolean };
  infrastructureAdmin: boolean;
  /** The Data API as this user, under row-level security. */
  data: SupabaseClient;
}

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
  return {
    id: auth.claims.sub,
    email: facts.user.email ?? "",
    displayName: facts.user.displayName,
    avatarUrl: facts.user.avatarUrl,
    sessionId: auth.claims.session_id,
    aal: facts.aal,
    provenAt: new Date(Math.max(0, ...auth.claims.amr.map(({ timestamp }) => timestamp)) * 1000),
    mfa: { required: facts.policy.required || facts.hasVerifiedFactor, satisfied: facts.policy.satisfied },
    infrastructureAdmin: facts.infrastructureAdmin,
    data: createDataClient(env, auth.accessToken),
  };
}

/**
 * The user of this request, whose session satisfies what their account demands.
 * @throws Response 403 MFA_REQUIRED where a second step is due
 * @throws Response a redirect to the sign-in page that keeps the destination; for APIs and bearer callers 401
 * @throws Response 503 AUTH_UNAVAILABLE, as {@link getUser}
 */
export async function requireUser(context: AppLoadContext, request: Request): Promise<User> {
  const user = await getUser(context);
  if (user) {
    if (!user.mfa.satisfied) throw problem("MFA_REQUIRED", { requestId: context.requestId });
    return user;
  }
  const { surface, requestId, origin } = context;
  if (surface === "api" || request.headers.has("authorization")) {
    throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
  }
  const { pathname, search } = new URL(request.url);
  const asked = request.method === "GET" ? `${pathname}${search}` : pathname;
  const destination = redirectTarget(asked, { origin, fallback: "/" });
  throw redirect(destination === "/" ? "/login" : `/login?${new URLSearchParams({ returnUrl: destination })}`);
}

/**
 * The user of this request, whose sign-in is fresh enough for a change that matters (design.md, step-up).
 * @throws Response 403 STEP_UP_REQUIRED where it is older than ten minutes
 * @throws Response as {@link requireUser}
 */
export async function requireFreshUser(context: AppLoadContext, request: Request): Promise<User> {
  const user = await requireUser(context, request);
  if (Date.now() - user.provenAt.getTime() <= freshSignInMs) return user;
  const detail = "Your sign-in is too old for this. Sign out, sign in again, and come back within ten minutes.";
  throw problem("STEP_UP_REQUIRED", { requestId: context.requestId, detail });
}

function unavailable(requestId: string): Response {
  return problem("AUTH_UNAVAILABLE", { requestId, headers: { "Retry-After": "5" } });
}
