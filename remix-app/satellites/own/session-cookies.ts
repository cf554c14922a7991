import { createHash, randomBytes } from "node:crypto";
import { cookies } from "../../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../../http/cookies.ts";
import type { IssuedSession } from "./central-client.ts";

const sessions = [cookies.appSession, cookies.centralSession, cookies.sessionSeal];

const isSecure = ({ origin }: CookieContext) => origin.startsWith("https:");

/** Which two sessions belong together. */
function sealOf(app: string, central: string): string {
  return createHash("sha256")
    .update(JSON.stringify([app, central || null]))
    .digest("base64url");
}

/** The tokens of this browser's sessions; none where they are not the two that it was given here together. */
export function heldSessions(context: CookieContext): { app?: string; central?: string } {
  const [app, central] = [readCookie(context, cookies.appSession), readCookie(context, cookies.centralSession)];
  if (!app || (isSecure(context) && readCookie(context, cookies.sessionSeal) !== sealOf(app, central))) return {};
  return { app, ...(central ? { central } : {}) };
}

/** Gives this browser new tokens; a session that is not named keeps the one it has. */
export function keepSessions(
  context: CookieContext,
  { app, central }: { app?: IssuedSession | null; central?: IssuedSession | null },
): void {
  const held = {
    app: app?.token ?? readCookie(context, cookies.appSession),
    central: central?.token ?? readCookie(context, cookies.centralSession),
  };
  if (app) writeCookie(context, cookies.appSession, { value: app.token });
  if (central) writeCookie(context, cookies.centralSession, { value: central.token });
  if (isSecure(context)) writeCookie(context, cookies.sessionSeal, { value: sealOf(held.app, held.central) });
}

/** Takes both sessions from the browser. */
export function forgetSessions(context: CookieContext): void {
  for (const cookie of sessions) if (readCookie(context, cookie)) clearCookie(context, cookie);
}

/** A state that only this browser has, to know its own sign-in by when it comes back. */
export function sendState(context: CookieContext): string {
  const state = randomBytes(24).toString("base64url");
  writeCookie(context, cookies.signInState, { value: state });
  return state;
}

/** Whether a state is the one that this browser was sent off with. */
export function stateMatches(context: CookieContext, state: string | null | undefined): boolean {
  const sent = readCookie(context, cookies.signInState);
  return sent !== "" && sent === state;
}

/** Ends the sign-in that the state was for. */
export function forgetState(context: CookieContext): void {
  if (readCookie(context, cookies.signInState)) clearCookie(context, cookies.signInState);
}
