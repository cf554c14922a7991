import type { AppLoadContext } from "@remix-run/node";
import type { User } from "../session/user.ts";
import type { Signals } from "./browser/signals.ts";
import type { Passkey } from "./passkeys.ts";
import { relyingPartyId } from "./relying-party.ts";

export interface PasskeysOverview {
  passkeys: Passkey[];
  signals: Signals;
}

/**
 * Returns the account's passkeys for the security page, and the WebAuthn signals that the page sends to the browser.
 */
export function passkeysOverview(
  context: AppLoadContext,
  { user, passkeys }: { user: User; passkeys: Passkey[] },
): PasskeysOverview {
  return { passkeys, signals: signalsOf(context, { user, passkeys }) };
}

function signalsOf({ env, origin }: AppLoadContext, { user, passkeys }: { user: User; passkeys: Passkey[] }): Signals {
  return {
    rpID: relyingPartyId({ origin, parentDomain: env.PARENT_DOMAIN }),
    // The identity backend uses the id's text as the user handle.
    userID: Buffer.from(user.id).toString("base64url"),
    userName: user.email,
    userDisplayName: user.displayName ?? user.email,
    allAcceptedCredentialIDs: passkeys.map(({ credentialId }) => credentialId),
  };
}
