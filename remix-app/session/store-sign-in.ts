import { type AppLoadContext, redirect } from "@remix-run/node";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { logError } from "#shared/log.ts";
import { problem } from "../http/problem.ts";
import { type Device, newDevice, newSecret, type StoredSession, secretHash } from "./cookies.ts";
import { discardSession } from "./request-session.ts";
import { retryOnce, type Vault, VaultUnavailable } from "./vault.ts";

const signInResult = z.object({ status: z.enum(["kept", "unknown", "full", "over"]) });
type SignInStatus = z.infer<typeof signInResult>["status"];

/** A session that the identity backend returned during this request. */
export interface NewSession {
  session: StoredSession;
  claims: Claims;
}

interface SignIn extends NewSession {
  /**
   * The id of the browser's earlier session, which the new session continues without another sign-in, for example after
   * a QR handoff. If the browser has signed out of the earlier session, the new session is ended.
   */
  inPlaceOf?: string | undefined;
}

/**
 * Stores a new sign-in in the vault. A known browser gets a cookie, and its next request adds the account to the others
 * (docs/accounts.md, A sign-in). An unknown browser gets a new device, because identifiers from the browser are never
 * adopted. If `inPlaceOf` is set, the new session immediately replaces that session. Every refusal ends the new session.
 * @throws Response a redirect to the accounts page if the browser has the maximum number of accounts
 * @throws Response a redirect to the sign-in page, for APIs 401 UNAUTHENTICATED, if the session `inPlaceOf` has ended
 * in this browser
 * @throws Response 503 AUTH_UNAVAILABLE if the session could not be stored
 */
export async function storeSignIn(context: AppLoadContext, signIn: SignIn): Promise<void> {
  const { requestId, surface } = context;
  const { session, inPlaceOf } = signIn;
  let status: SignInStatus;
  try {
    status = await storeOnDevice(context, signIn);
  } catch (error) {
    if (!(error instanceof VaultUnavailable)) throw error;
    logError(`a sign-in could not be kept: ${error.message}`, { requestId });
    await discardSession(context, session);
    const detail = "You signed in, but we couldn’t save your session. Try again in a moment.";
    throw problem("AUTH_UNAVAILABLE", { requestId, detail });
  }
  if (status === "kept") return;
  await discardSession(context, session);
  if (inPlaceOf === undefined) throw redirect("/accounts?full");
  if (surface === "page") throw redirect("/login");
  throw problem("UNAUTHENTICATED", { requestId, headers: { "WWW-Authenticate": "Bearer" } });
}

async function storeOnDevice(context: AppLoadContext, { inPlaceOf, ...signIn }: SignIn): Promise<SignInStatus> {
  const device = context.session.deviceCookie;
  if (inPlaceOf !== undefined) {
    return device ? continueSession(context, { ...signIn, device, inPlaceOf }) : "unknown";
  }
  const status = device ? await addAccount(context, { ...signIn, device }) : "unknown";
  return status === "unknown" ? createDevice(context, signIn) : status;
}

async function createDevice(
  { session: { vault, storeDevice } }: AppLoadContext,
  signIn: NewSession,
): Promise<SignInStatus> {
  const device = newDevice();
  const args = { sign_in: { nextHash: secretHash(device), ...(await seal(vault, { ...signIn, device })) } };
  const { status } = await vault.call("sign_in_account", { args, schema: signInResult });
  if (status === "kept") storeDevice(device);
  return status;
}

async function addAccount(
  { session: { vault, storeAddition } }: AppLoadContext,
  { device, ...signIn }: NewSession & { device: Device },
): Promise<SignInStatus> {
  const { id, secret } = device;
  const addition = { id, secret: newSecret() };
  const args = {
    addition: { secret, secretHash: secretHash(addition), ...(await seal(vault, { ...signIn, device })) },
  };
  const { status } = await retryOnce(() => vault.call("add_account", { args, schema: signInResult }));
  if (status === "kept") storeAddition(addition);
  return status;
}

async function continueSession(
  { session: { vault } }: AppLoadContext,
  { device, inPlaceOf, ...signIn }: NewSession & { device: Device; inPlaceOf: string },
): Promise<SignInStatus> {
  const args = { continuation: { secret: device.secret, inPlaceOf, ...(await seal(vault, { ...signIn, device })) } };
  return (await retryOnce(() => vault.call("continue_account_session", { args, schema: signInResult }))).status;
}

async function seal(vault: Vault, { device, session, claims }: NewSession & { device: Device }) {
  const { sub: userId, session_id: sessionId } = claims;
  return { deviceId: device.id, userId, sessionId, ...(await vault.seal(device, { userId, session })) };
}
