import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { deviceName } from "../activity/device-name.ts";
import { passkeyName } from "../activity/passkey-name.ts";
import { announceAddition, recordEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import type { User } from "../session/user.ts";
import { mapGeneralError } from "../supabase/auth-errors.ts";
import { callFunction } from "../supabase/data-api.ts";
import { createDuplicatePasskeyProblem, passkeyProblem, requireBackendError } from "./passkey-problem.ts";
import { createMissingPasskeyProblem, type Passkey, passkeyExists } from "./passkeys.ts";
import type { finishRegistrationSchema } from "./payloads.ts";
import { requireRelyingParty } from "./require-relying-party.ts";

/**
 * Requests a challenge from the identity backend to create a passkey for the session's user.
 * @throws Response a problem, see {@link passkeyProblem}
 */
export async function startRegistration(context: AppLoadContext) {
  const { data, error } = await context.session.sessionClient().auth.passkey.startRegistration();
  if (error) throw passkeyProblem(error, context);
  requireRelyingParty(context, data.options.rp.id);
  const { rp } = data.options;
  // Browsers and password managers show this name. It is not signed, so it may differ from the identity backend's
  // setting.
  return { challengeId: data.challenge_id, options: { ...data.options, rp: { ...rp, name: context.env.BRAND_NAME } } };
}

/**
 * Verifies and stores a new passkey through the identity backend, and notifies its owner.
 * @throws Response a problem, see {@link passkeyProblem}
 */
export async function finishRegistration(
  context: AppLoadContext,
  { challengeId, credential, userId }: z.infer<typeof finishRegistrationSchema> & { userId: string },
): Promise<void> {
  await announceAddition(context, { userId, target: Buffer.from(credential.id, "base64url").toString("hex") });
  const { data, error: failure } = await context.session
    .sessionClient()
    .auth.passkey.verifyRegistration({ challengeId, credential });
  const error = requireBackendError(failure);
  // For a passkey that is already added, the backend returns only a generic failure.
  if (error && mapGeneralError(error)?.status === 503 && (await passkeyExists(context.env, credential.id))) {
    throw createDuplicatePasskeyProblem(context.requestId);
  }
  if (error) throw passkeyProblem(error, context);
  const device = deviceName(context.userAgent);
  const passkey = passkeyName({ name: data?.friendly_name ?? null, aaguid: null, device });
  await recordEvent(context, { userId, kind: "passkey_added", details: { passkey } });
}

interface PasskeyRename {
  /** The signed-in user, who owns the passkey. */
  userId: string;
  passkey: Passkey;
  name: string;
}

/** @throws Response the problem that {@link passkeyProblem} returns */
export async function renamePasskey(context: AppLoadContext, change: PasskeyRename): Promise<void> {
  const { userId, passkey, name } = change;
  const { error } = await context.session
    .sessionClient()
    .auth.passkey.update({ passkeyId: passkey.id, friendlyName: name });
  if (error) throw passkeyProblem(error, context);
  await recordEvent(context, { userId, kind: "passkey_renamed", details: { from: passkey.name, to: name } });
}

/**
 * Deletes an account's passkey, unless it is the last way to sign in, and notifies the owner.
 * @returns false if it is the last usable way to sign in
 * @throws Response 403 MFA_REQUIRED if the session has not yet been confirmed with the account's authenticator, 404
 * NOT_FOUND, 503 UNAVAILABLE
 */
export async function deletePasskey(
  context: AppLoadContext,
  { user, passkey }: { user: User; passkey: Passkey },
): Promise<boolean> {
  const { env, requestId } = context;
  const outcome = await callFunction(context, {
    name: "private.delete_passkey",
    args: {
      subject_id: user.id,
      actor_session_id: user.sessionId,
      target_id: passkey.id,
      usable_providers: env.OAUTH_PROVIDERS,
    },
    schema: deletionOutcome,
  });
  if (outcome === "not_found") throw createMissingPasskeyProblem(requestId);
  if (outcome === "insufficient_aal") throw problem("MFA_REQUIRED", { requestId });
  if (outcome === "last_method") return false;
  await recordEvent(context, { userId: user.id, kind: "passkey_removed", details: { passkey: passkey.name } });
  return true;
}

const deletionOutcome = z.enum(["deleted", "last_method", "insufficient_aal", "not_found"]);
