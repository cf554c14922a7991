import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { recordEvent } from "../activity/record-event.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, readCookie, writeCookie } from "../http/cookies.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type Device, newDevice, newSecret, type StoredSession, secretHash } from "./cookies.ts";
import { isEasyToGuess } from "./password-fault.ts";
import { discardSession, requireKeptSession } from "./request-session.ts";
import { mfaFactsOf, replacePasswordPath, secondStepPath } from "./user.ts";
import { type Vault, VaultUnavailable } from "./vault.ts";

export interface CompletedSignIn {
  /** The sign-in method, as named in the security log. */
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
  /** Where to redirect: a path of ours, sanitized by the caller. */
  destination: string;
  /** The typed password. A person whose password is easy to guess must replace it before the destination opens. */
  password?: string;
  /** The id of this browser's session that the new session continues and replaces ({@link keepSignIn}). */
  inPlaceOf?: string;
}

/**
 * Completes a sign-in once the backend's session is stored. Makes the account the active one in this browser, replaces
 * the account's earlier session in this browser, and records the sign-in.
 * @returns a redirect to the destination, or to a step that is required first
 * @throws Response 403 FORBIDDEN if the session was too large for a cookie, and what {@link keepSignIn} throws
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
  // If the session's state is unknown, leaves the MFA check to the destination page.
  const facts = state.status === "alive" ? state.facts : null;
  const isListed =
    password !== undefined &&
    isEasyToGuess(
      { password, email: email ?? null, name: facts?.user.displayName ?? null },
      { product: context.env.BRAND_NAME },
    );
  if (isListed) await restrictToNewPassword(context, { session, claims });
  const next = isListed ? replacePasswordPath(destination) : destination;
  const mfa = facts && mfaFactsOf(facts);
  return redirect(mfa && !mfa.satisfied ? secondStepPath(mfa, next) : next);
}

const signInAnswer = z.object({ status: z.enum(["kept", "unknown", "full", "over"]) });

interface SignIn {
  session: StoredSession;
  /** The session's claims. The identity backend returned the session during this request. */
  claims: Claims;
  /**
   * The browser's earlier session, which the new session continues without another sign-in, for example after a QR
   * handoff. If the browser has signed out of the earlier session, the new session is ended.
   */
  inPlaceOf?: string | undefined;
}

/**
 * Stores a new sign-in for this browser. A known browser gets a cookie, and its next request adds the account to the
 * others (docs/accounts.md, A sign-in). An unknown browser gets a new device, because identifiers from the browser are
 * never adopted. If `inPlaceOf` is set, the new session immediately replaces that session in the vault. Every refusal
 * ends the new session.
 * @throws Response a redirect to the accounts page if the browser has the maximum number of accounts
 * @throws Response a redirect to the sign-in page, for APIs 401 UNAUTHENTICATED, if the session `inPlaceOf` has ended
 * in this browser
 * @throws Response 503 AUTH_UNAVAILABLE if the session could not be stored
 */
async function keepSignIn(context: AppLoadContext, signIn: SignIn): Promise<void> {
  const { requestId, surface } = context;
  const { session, inPlaceOf } = signIn;
  const device = context.session.deviceCookie;
  let status: z.infer<typeof signInAnswer>["status"];
  try {
    if (inPlaceOf !== undefined) status = device ? await continueSession(context, { ...signIn, device }) : "unknown";
    else {
      status = device ? await addAccount(context, { ...signIn, device }) : "unknown";
      if (status === "unknown") status = await makeDevice(context, signIn);
    }
  } catch (error) {
    if (!(error instanceof VaultUnavailable)) throw error;
    console.error(`error request=${requestId} a sign-in could not be kept: ${error.message}`);
    await drop(context, session);
    const detail = "You signed in, but we couldn’t save your session. Try again in a moment.";
    throw problem("AUTH_UNAVAILABLE", { requestId, detail });
  }
  if (status === "kept") return;
  await drop(context, session);
  if (inPlaceOf === undefined) throw redirect("/accounts?full");
  if (surface === "page") throw redirect("/login");
  throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
}

async function makeDevice({ session: { vault, storeDevice } }: AppLoadContext, signIn: SignIn) {
  const device = newDevice();
  const args = { sign_in: { nextHash: secretHash(device), ...(await sealFor(vault, { ...signIn, device })) } };
  const { status } = await vault.call("sign_in_account", { args, schema: signInAnswer });
  if (status === "kept") storeDevice(device);
  return status;
}

async function addAccount(
  { session: { vault, storeAddition } }: AppLoadContext,
  { device, ...signIn }: SignIn & { device: Device },
) {
  const { id, secret } = device;
  const addition = { id, secret: newSecret() };
  const args = {
    addition: { secret, secretHash: secretHash(addition), ...(await sealFor(vault, { ...signIn, device })) },
  };
  const { status } = await askTwice(() => vault.call("add_account", { args, schema: signInAnswer }));
  if (status === "kept") storeAddition(addition);
  return status;
}

async function continueSession(
  { session: { vault } }: AppLoadContext,
  { device, inPlaceOf, ...signIn }: SignIn & { device: Device },
) {
  const args = {
    continuation: { secret: device.secret, inPlaceOf, ...(await sealFor(vault, { ...signIn, device })) },
  };
  return (await askTwice(() => vault.call("continue_account_session", { args, schema: signInAnswer }))).status;
}

async function sealFor(vault: Vault, { device, session, claims }: SignIn & { device: Device }) {
  const { sub: userId, session_id: sessionId } = claims;
  return { deviceId: device.id, userId, sessionId, ...(await vault.seal(device, { userId, session })) };
}

/**
 * Retries an idempotent call once if the vault did not answer. The first call may have succeeded and lost its response.
 */
async function askTwice<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  return ask().catch((error: unknown) => {
    if (error instanceof VaultUnavailable) return ask();
    throw error;
  });
}

/**
 * Restricts a session to replacing the account's password. Ends the session if it can't be restricted.
 * @throws Response 503 AUTH_UNAVAILABLE if the session can't be restricted
 */
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

/**
 * Ends the session that was just created and removes it from the browser. The next request restores the active account.
 */
async function drop(context: AppLoadContext, made: StoredSession): Promise<void> {
  await discardSession(context, made);
  context.session.clear();
}

const lastUsedMethod = z.union([
  z.enum(["password", "passkey", "email_code"]),
  z.templateLiteral(["oauth:", z.string().max(32)]),
]);

/** A sign-in method as marked on the sign-in page: `password`, `passkey`, `oauth:google`. */
export type LastUsedMethod = z.infer<typeof lastUsedMethod>;

/** Returns the last sign-in method used in this browser, or null. Only a hint for the order of buttons. */
export function readLastUsedMethod(context: CookieContext): LastUsedMethod | null {
  return lastUsedMethod.safeParse(readCookie(context, cookies.lastMethod)).data ?? null;
}

/**
 * Remembers this browser's sign-in method, which the sign-in page marks. Emailed links have no button to mark, so they
 * are not remembered.
 */
export function rememberMethod(context: CookieContext, method: string): void {
  const remembered = lastUsedMethod.safeParse(
    method === "sign_up" || method === "password_reset" ? "password" : method,
  );
  if (remembered.success) writeCookie(context, cookies.lastMethod, { value: remembered.data });
}

/** Moves the last used item to the front and keeps the order of the rest. */
export function lastUsedFirst<Item>(items: readonly Item[], isLastUsed: (item: Item) => boolean): Item[] {
  return [...items.filter(isLastUsed), ...items.filter((item) => !isLastUsed(item))];
}
