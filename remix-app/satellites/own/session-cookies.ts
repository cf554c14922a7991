import { createHash, randomBytes } from "node:crypto";
import type { AppLoadContext } from "@remix-run/server-runtime";
import type { IssuedSession } from "./central-client.ts";

/** Host-only and HttpOnly: no script and no sibling host reads them. */
const appCookie = "platform_app_session";
const centralCookie = "platform_central_session";
/**
 * A sibling host cannot read them, but can plant its own for the whole domain. It cannot plant one of this name
 * (RFC 6265bis §4.1.3.2), which says of which two sessions this browser was given here. Plain http knows no such names.
 */
const sealCookie = "__Host-platform_session_seal";
/** A session leads no further than 30 days; the platform decides, the browser merely keeps. */
const sessionMaxAgeSeconds = 30 * 24 * 60 * 60;
const stateMaxAgeSeconds = 10 * 60;

type CookieContext = Pick<AppLoadContext, "jar" | "origin">;

const isSecure = ({ origin }: CookieContext) => origin.startsWith("https:");
const stateCookie = (context: CookieContext) => `${isSecure(context) ? "__Host-" : ""}platform_sign_in_state`;

function attributes(context: CookieContext, maxAge: number) {
  return { httpOnly: true, sameSite: "lax", secure: isSecure(context), maxAge } as const;
}

function sealOf(app: string, central: string | undefined): string {
  return createHash("sha256")
    .update(JSON.stringify([app, central]))
    .digest("base64url");
}

/** The tokens of this browser's sessions; none where they are not the two that it was given here together. */
export function heldSessions(context: CookieContext): { app?: string; central?: string } {
  const [app, central] = [context.jar.get(appCookie), context.jar.get(centralCookie)];
  if (!app || (isSecure(context) && context.jar.get(sealCookie) !== sealOf(app, central))) return {};
  return { app, ...(central ? { central } : {}) };
}

/** Gives this browser new tokens; a session that is not named keeps the one it has. */
export function keepSessions(
  context: CookieContext,
  { app, central }: { app?: IssuedSession | null; central?: IssuedSession | null },
): void {
  const { jar } = context;
  const kept = attributes(context, sessionMaxAgeSeconds);
  if (app) jar.set(appCookie, app.token, kept);
  if (central) jar.set(centralCookie, central.token, kept);
  if (isSecure(context)) jar.set(sealCookie, sealOf(jar.get(appCookie) ?? "", jar.get(centralCookie)), kept);
}

/** Takes both sessions from the browser. */
export function forgetSessions(context: CookieContext): void {
  for (const name of [appCookie, centralCookie, sealCookie]) {
    if (context.jar.get(name) !== undefined) context.jar.set(name, "", attributes(context, 0));
  }
}

/** A state that only this browser has, to know its own sign-in by when it comes back. */
export function sendState(context: CookieContext): string {
  const state = randomBytes(24).toString("base64url");
  context.jar.set(stateCookie(context), state, attributes(context, stateMaxAgeSeconds));
  return state;
}

/** Whether a state is the one that this browser was sent off with. */
export function stateMatches(context: CookieContext, state: string | null | undefined): boolean {
  const sent = context.jar.get(stateCookie(context));
  return sent !== undefined && sent !== "" && sent === state;
}

/** Ends the sign-in that the state was for. */
export function forgetState(context: CookieContext): void {
  const name = stateCookie(context);
  if (context.jar.get(name) !== undefined) context.jar.set(name, "", attributes(context, 0));
}
