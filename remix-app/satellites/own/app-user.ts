import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { problem } from "../../http/problem.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import type { Verified } from "../app-calls.ts";
import { CentralUnavailable } from "./central-client.ts";
import { satelliteOf } from "./satellite-context.ts";
import { forgetSessions, forgetState, heldSessions, keepSessions, sendState, stateMatches } from "./session-cookies.ts";

/** A session this close to its end is refreshed. */
const refreshMarginSeconds = 60 * 60;

/** The person whom the platform has handed over to this app. */
export interface AppUser {
  id: string;
  name: string | null;
  email: string | null;
}

/** Turns a platform that does not answer into a 503 that leaves the cookies alone. */
async function reached<Result>(context: AppLoadContext, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CentralUnavailable)) throw error;
    console.error(`error request=${context.requestId} ${error.message}`);
    throw problem("AUTH_UNAVAILABLE", { requestId: context.requestId, headers: { "Retry-After": "5" } });
  }
}

/**
 * The person of this request, or null. Asked of the platform each time, so that a session that was ended there ends here.
 * @throws Response 503 AUTH_UNAVAILABLE where the platform does not answer; the cookies stay
 */
export async function getAppUser(context: AppLoadContext): Promise<AppUser | null> {
  const { app: token } = heldSessions(context);
  if (!token) return null;
  const { central } = satelliteOf(context);
  return reached(context, async () => {
    const session = await central.introspect(token);
    if (!session.active) {
      forgetSessions(context);
      return null;
    }
    if (session.exp - Date.now() / 1000 < refreshMarginSeconds) await refreshBoth(context);
    return { id: session.sub, name: session.name ?? null, email: session.email ?? null };
  });
}

async function refreshBoth(context: AppLoadContext): Promise<void> {
  const { central: platform } = satelliteOf(context);
  const { app, central } = heldSessions(context);
  keepSessions(context, {
    app: app ? await platform.refresh(app) : null,
    central: central ? await platform.refresh(central) : null,
  });
}

/**
 * The person of this request; who is not signed in is sent to the platform, and comes back to where they were.
 * @throws Response the redirect; 503 as {@link getAppUser}
 */
export async function requireAppUser(context: AppLoadContext, request: Request): Promise<AppUser> {
  const user = await getAppUser(context);
  if (user) return user;
  const { pathname, search } = new URL(request.url);
  throw startSignIn(context, request.method === "GET" ? `${pathname}${search}` : "/");
}

/** Sends a browser to the platform's sign-in, with a state that only this browser has. */
export function startSignIn(context: AppLoadContext, returnTo: unknown): Response {
  const { env } = satelliteOf(context);
  const path = redirectTarget(returnTo, { context, fallback: "/" });
  const query = new URLSearchParams({ returnUrl: `${context.origin}${path}`, state: sendState(context) });
  return redirect(`${env.CENTRAL_URL}/login?${query}`);
}

/** Whom a token would sign in, for "Continue as …"; null where it leads nowhere. Redeems nothing. */
export function previewSignIn(context: AppLoadContext, token: string): Promise<Omit<AppUser, "id"> | null> {
  return reached(context, () => satelliteOf(context).central.preview(token));
}

/**
 * Redeems a cross-app token and keeps what it opens in new cookies; whatever session was here before is ended.
 * @returns null where the token leads nowhere, or a state was brought that is not this browser's
 */
export async function finishSignIn(
  context: AppLoadContext,
  { token, state }: { token: string; state?: string | undefined },
): Promise<Verified | null> {
  if (state !== undefined && !stateMatches(context, state)) return null;
  const { central } = satelliteOf(context);
  const { app: before } = heldSessions(context);
  const opened = await reached(context, () => central.redeem(token));
  if (!opened) return null;
  if (before) await endSession(context, before);
  forgetSessions(context);
  keepSessions(context, { app: opened.appSession, central: opened.centralSession ?? null });
  forgetState(context);
  return { userId: opened.userId, expiresAt: opened.appSession.expiresAt };
}

/** Ends this browser's session here and at the platform; the one there may outlive an outage. */
export async function signOutHere(context: AppLoadContext): Promise<void> {
  const { app: token } = heldSessions(context);
  if (token) await endSession(context, token);
  forgetSessions(context);
}

async function endSession(context: AppLoadContext, token: string): Promise<void> {
  await satelliteOf(context)
    .central.revoke(token)
    .catch((error: unknown) => {
      console.error(`warning request=${context.requestId} an app session was not revoked: ${String(error)}`);
    });
}

/**
 * Calls the central API as the person of this request. A session that has run out is refreshed once, by one call for
 * all who wait for it.
 * @throws Response a redirect to the platform's sign-in where the session is over; 503 as {@link getAppUser}
 */
export async function centralFetch(
  context: AppLoadContext,
  path: string,
  options: { request: Request; method?: string; body?: unknown },
): Promise<Response> {
  const { request, ...call } = options;
  const { central } = satelliteOf(context);
  return reached(context, async () => {
    const { central: token } = heldSessions(context);
    if (token) {
      const response = await central.fetch(path, { token, ...call });
      if (response.status !== 401) return response;
      const next = await central.refresh(token);
      if (next) {
        keepSessions(context, { central: next });
        const again = await central.fetch(path, { token: next.token, ...call });
        if (again.status !== 401) return again;
      }
    }
    forgetSessions(context);
    throw startSignIn(context, request.method === "GET" ? new URL(request.url).pathname : "/");
  });
}
