import {
  type AuthenticationResponseJSON,
  type RegistrationResponseJSON,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from "@simplewebauthn/server";
import { z } from "zod";
import { one, transaction } from "../db.ts";
import { isUuid } from "./admin-users.ts";
import type { Caller, Deps } from "./deps.ts";
import { AuthError, unexpected } from "./errors.ts";
import { passkeyName } from "./passkey-names.ts";
import { algorithms, listPasskeys, type Passkey, recordUse, requireRoom, takeChallenge } from "./passkeys.ts";
import { isUniqueViolation } from "./sign-up.ts";
import { type SignedIn, signIn } from "./tokens.ts";
import { findUserById, getUserById, isBanned, type User } from "./users.ts";

const base = { id: z.string().min(1), rawId: z.string().min(1), type: z.literal("public-key") };
const extensions = z.looseObject({}).nullish();
const created = z.looseObject({
  ...base,
  clientExtensionResults: extensions,
  response: z.looseObject({
    clientDataJSON: z.string(),
    attestationObject: z.string(),
    transports: z.array(z.string()).nullish(),
  }),
});
const asserted = z.looseObject({
  ...base,
  clientExtensionResults: extensions,
  response: z.looseObject({
    clientDataJSON: z.string(),
    authenticatorData: z.string(),
    signature: z.string(),
    userHandle: z.string().min(1),
  }),
});

function failed(cause?: unknown): AuthError {
  return new AuthError(400, "webauthn_verification_failed", "Credential verification failed", { cause });
}

/** Returns the values that registration and sign-in must find in the browser's response. */
function expectations({ config }: Deps, expectedChallenge: string) {
  return {
    expectedChallenge,
    expectedOrigin: config.GOTRUE_WEBAUTHN_RP_ORIGINS,
    expectedRPID: config.GOTRUE_WEBAUTHN_RP_ID,
    requireUserVerification: false,
  };
}

/**
 * Registers a passkey of the user.
 * @throws AuthError 400 webauthn_challenge_*, webauthn_verification_failed; 422 too_many_passkeys; 500 if an account
 * already has the passkey
 */
export async function registerPasskey(
  deps: Deps,
  { user, challengeId, credential }: { user: User; challengeId: string; credential: unknown },
): Promise<Passkey> {
  const challenge = await takeChallenge(deps, { id: challengeId, type: "registration", userId: user.id });
  const parsed = created.safeParse(credential);
  if (!parsed.success) throw failed(parsed.error);
  const { registrationInfo } = await verifyRegistrationResponse({
    response: { ...parsed.data, clientExtensionResults: {} } as RegistrationResponseJSON,
    ...expectations(deps, challenge),
    supportedAlgorithmIDs: algorithms,
  }).catch((error: unknown) => {
    throw failed(error);
  });
  if (!registrationInfo) throw failed();
  const { aaguid, credential: key, credentialDeviceType, credentialBackedUp, fmt } = registrationInfo;
  try {
    return await transaction(deps.db, async (tx) => {
      await getUserById(tx, { id: user.id, lock: true });
      requireRoom(await listPasskeys(tx, user.id), deps);
      const passkey = await one<Passkey>(
        tx,
        `insert into auth.webauthn_credentials (id, user_id, credential_id, public_key, attestation_type, aaguid,
           sign_count, transports, backup_eligible, backed_up, friendly_name, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12) returning *`,
        [
          deps.random.uuid(),
          user.id,
          Buffer.from(key.id, "base64url"),
          Buffer.from(key.publicKey),
          fmt,
          aaguid || null,
          key.counter,
          JSON.stringify(parsed.data.response.transports ?? []),
          credentialDeviceType === "multiDevice",
          credentialBackedUp,
          passkeyName(aaguid),
          deps.clock(),
        ],
      );
      if (!passkey) throw unexpected("Database error creating passkey");
      return passkey;
    });
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    // Supabase Auth also returns 500 here, although its code intends 422 webauthn_credential_exists.
    throw unexpected("Database error creating passkey", error);
  }
}

/**
 * Signs in with a passkey, which identifies its user. The session is aal1, since a passkey does not count as a second
 * factor here.
 * @throws AuthError 400 webauthn_challenge_*, webauthn_verification_failed; 403 email_not_confirmed, user_banned
 */
export async function signInWithPasskey(
  deps: Deps,
  { challengeId, credential, caller }: { challengeId: string; credential: unknown; caller: Caller },
): Promise<SignedIn> {
  const challenge = await takeChallenge(deps, { id: challengeId, type: "authentication", userId: null });
  const parsed = asserted.safeParse(credential);
  if (!parsed.success) throw failed(parsed.error);
  const { id, response } = parsed.data;
  const userId = Buffer.from(response.userHandle, "base64url").toString("utf8");
  const user = isUuid(userId) ? await findUserById(deps.db, { id: userId }) : undefined;
  const passkey = (user ? await listPasskeys(deps.db, user.id) : []).find(
    (known) => known.credential_id.toString("base64url") === id,
  );
  if (!user || !passkey) throw failed();
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: { ...parsed.data, clientExtensionResults: {} } as AuthenticationResponseJSON,
    ...expectations(deps, challenge),
    // The stored counter is not passed, so that a counter going backwards is tolerated.
    credential: { id, publicKey: Uint8Array.from(passkey.public_key), counter: 0 },
  }).catch((error: unknown) => {
    throw failed(error);
  });
  const eligible = authenticationInfo?.credentialDeviceType === "multiDevice";
  if (!verified || eligible !== passkey.backup_eligible) throw failed();
  if (user.email && !user.email_confirmed_at) {
    throw new AuthError(403, "email_not_confirmed", "Email not confirmed");
  }
  if (isBanned(user, deps.clock())) throw new AuthError(403, "user_banned", "User is banned");
  return transaction(deps.db, async (tx) => {
    await recordUse(tx, { deps, id: passkey.id, counter: authenticationInfo.newCounter });
    return signIn(tx, { deps, user, method: "passkey", caller });
  });
}
