import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { recordEvent } from "../activity/record-event.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, readCookie, writeCookie } from "../http/cookies.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type Device, newDevice, type StoredSession, secretHash, successorOf } from "./cookies.ts";
import { isEasyToGuess } from "./password-fault.ts";
import { discardSession, requireKeptSession } from "./request-session.ts";
import { mfaFactsOf, replacePasswordPath, secondStepPath } from "./user.ts";
import { VaultUnavailable } from "./vault.ts";

export interface CompletedSignIn {
  /** By what they signed in, as the security log names it. */
  method:
    | "password"
    | "email_code"
    | "email_link"
    | "password_reset"
    | "recovery"
    | "sign_up"
    | "passkey"
    | "qr"
    | `oauth:${string}`;
  /** Where they were going: a path of ours, sanitised by the caller. */
  destination: string;
  /** The password that they typed. One that is easy to guess leads to the page that replaces it first. */
  password?: string;
  /** The session of this browser that the new one continues, without another sign-in ({@link keepSignIn}). */
  inPlaceOf?: string;
}

/**
 * Completes a sign-in once the backend's session is stored: adds the account to this browser as the active one, replaces
 * its earlier session here, records the sign-in, and redirects the visitor, to the second step first if it is required.
 * @returns the redirect to answer with
 * @throws Response 403 FORBIDDEN where the session was too large for a cookie, and what {@link keepSignIn} throws
 */
export async function completeSignIn(
  context: AppLoadContext,
  { method, destination, password, inPlaceOf }: CompletedSignIn,
): Promise<Response> {
  const { session, claims } = requireKeptSession(context);
  await keepSignIn(context, { session, claims, inPlaceOf });
  rememberMethod(context, method);
  const { sub, email, session_id } = claims;
  const [state] = await Promise.all([
    context.session.issuedState(),
    recordEvent(context, { userId: sub, kind: "sign_in", method, sessionId: session_id }),
  ]);
  // Where nothing is known of it, the page that they go to finds out.
  const facts = state.status === "alive" ? state.facts : null;
  const isListed =
    password !== undefined && isEasyToGuess({ password, email: email ?? null, name: facts?.user.displayName ?? null });
  if (isListed) await restrictToNewPassword(context, { session, claims });
  const next = isListed ? replacePasswordPath(destination) : destination;
  const mfa = facts && mfaFactsOf(facts);
  return redirect(mfa && !mfa.satisfied ? secondStepPath(mfa, next) : next);
}

const signInAnswer = z.discriminatedUnion("status", [
  z.object({ status: z.literal("kept"), successor: z.union([z.literal(1), z.literal(2)]) }),
  z.object({ status: z.literal("unknown") }),
  z.object({ status: z.literal("full") }),
  z.object({ status: z.literal("over") }),
]);

/**
 * Adds a fresh sign-in to this browser's accounts, as the active one; of the same account it takes the place of the
 * session from before, which ends. Others stay. The browser gets a new secret, and a browser that is not known gets a
 * new identifier: none that it brings is ever adopted.
 * @param options.claims of the session, which the identity backend has handed to us in this very request
 * @param options.inPlaceOf the session of this browser that it continues without another sign-in: once the
 * browser has signed out of that one, it is refused, and no new identifier is made for it
 * @throws Response a redirect to the accounts where the browser holds as many as it may; the new session is ended
 * @throws Response a redirect to the sign-in page, for APIs 401 UNAUTHENTICATED, where the session that it continues is
 * over in this browser; the new session is ended
 * @throws Response 503 AUTH_UNAVAILABLE if it could not be kept; the browser stays signed out of it
 */
async function keepSignIn(
  context: AppLoadContext,
  { session, claims, inPlaceOf }: { session: StoredSession; claims: Claims; inPlaceOf?: string | undefined },
): Promise<void> {
  const { requestId, surface } = context;
  const brought = context.session.deviceCookie;
  try {
    let answer = brought && (await signInTo(context, { device: brought, known: true, session, claims, inPlaceOf }));
    if (inPlaceOf === undefined && (!answer || answer.status === "unknown")) {
      answer = await signInTo(context, { device: newDevice(), known: false, session, claims, inPlaceOf });
    }
    if (answer?.status === "kept") return;
  } catch (error) {
    if (!(error instanceof VaultUnavailable)) throw error;
    console.error(`error request=${requestId} a sign-in could not be kept: ${error.message}`);
    await drop(context, session);
    const detail = "Your sign-in worked, but could not be kept. Try again in a moment.";
    throw problem("AUTH_UNAVAILABLE", { requestId, detail });
  }
  await drop(context, session);
  if (inPlaceOf === undefined) throw redirect("/accounts?full");
  if (surface === "page") throw redirect("/login");
  throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
}

async function signInTo(
  { session: { vault, storeDevice } }: AppLoadContext,
  {
    device,
    known,
    session,
    claims,
    inPlaceOf,
  }: { device: Device; known: boolean; session: StoredSession; claims: Claims; inPlaceOf: string | undefined },
) {
  const { sub: userId, session_id: sessionId } = claims;
  const first = known ? successorOf(device, vault.keys) : device;
  const second = successorOf(first, vault.keys);
  const args = {
    sign_in: {
      deviceId: device.id,
      secret: known ? device.secret : null,
      nextHash: secretHash(first),
      secondNextHash: secretHash(second),
      userId,
      sessionId,
      inPlaceOf,
      ...(await vault.seal(device, { userId, session })),
    },
  };
  const ask = () => vault.call("sign_in_account", { args, schema: signInAnswer });
  const answer = await ask().catch(async (error: unknown) => {
    // For a known browser the call is idempotent, and perhaps only its answer was lost.
    if (!known || !(error instanceof VaultUnavailable)) throw error;
    const again = await ask();
    // It may have been kept under a secret that we cannot tell now, so no second device is made for it.
    if (again.status === "unknown") throw error;
    return again;
  });
  if (answer.status === "kept") storeDevice(answer.successor === 1 ? first : second);
  return answer;
}

/** Lets a session do nothing but replace its password. @throws Response 503 AUTH_UNAVAILABLE; the session is ended */
async function restrictToNewPassword(
  context: AppLoadContext,
  { session, claims }: { session: StoredSession; claims: Claims },
): Promise<void> {
  const { env, requestId } = context;
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("require_password_replacement", { subject_id: claims.sub, target_id: claims.session_id });
  if (!error) return;
  console.error(`error request=${requestId} a session was not restricted to a new password: ${error.code}`);
  await drop(context, session);
  throw problem("AUTH_UNAVAILABLE", { requestId, headers: { "Retry-After": "5" } });
}

/** Ends the session that was just made, and takes it from the browser. Who was active comes back with the next request. */
async function drop(context: AppLoadContext, made: StoredSession): Promise<void> {
  await discardSession(context, made);
  context.session.clear();
}

const lastUsedMethod = z.union([
  z.enum(["password", "passkey", "email_code"]),
  z.templateLiteral(["oauth:", z.string().max(32)]),
]);

/** A way to sign in, as the sign-in page marks it: `password`, `passkey`, `oauth:google`. */
export type LastUsedMethod = z.infer<typeof lastUsedMethod>;

/** The last sign-in method used in this browser, or null. A hint for the order of buttons. */
export function readLastUsedMethod(context: CookieContext): LastUsedMethod | null {
  return lastUsedMethod.safeParse(readCookie(context, cookies.lastMethod)).data ?? null;
}

/** Remembers the sign-in method of this browser. Links from mails have no button, so they change nothing. */
export function rememberMethod(context: CookieContext, method: string): void {
  const remembered = lastUsedMethod.safeParse(
    method === "sign_up" || method === "password_reset" ? "password" : method,
  );
  if (remembered.success) writeCookie(context, cookies.lastMethod, { value: remembered.data });
}

/** The list with what was used last in front; the rest stays as it was. */
export function lastUsedFirst<Item>(items: readonly Item[], isLastUsed: (item: Item) => boolean): Item[] {
  return [...items.filter(isLastUsed), ...items.filter((item) => !isLastUsed(item))];
}
