import type { AppLoadContext } from "@remix-run/server-runtime";
import { recordEvent } from "../activity/record-event.ts";
import { type AuthFailure, generalFailure } from "../identity/auth-errors.ts";
import type { User } from "../identity/user.ts";
import { listAuthenticators } from "./authenticators.ts";
import { removeRecoveryCodes } from "./recovery-codes.ts";

export type Removal = { removed: true } | ({ removed: false } & AuthFailure);

/**
 * Removes an authenticator of the signed-in user, and with the last one the recovery codes, which have nothing left to
 * recover. The last one of an account that is required to have one stays.
 * @throws Response 503, as {@link listAuthenticators} and {@link removeRecoveryCodes}
 */
export async function removeAuthenticator(
  context: AppLoadContext,
  { user, factorId }: { user: User; factorId: string },
): Promise<Removal> {
  const verified = (await listAuthenticators(context)).filter((authenticator) => authenticator.verified);
  const removed = verified.find(({ id }) => id === factorId);
  const others = verified.filter((authenticator) => authenticator !== removed);
  if (others.length === 0 && user.mfa.policy === "required") {
    return { removed: false, status: 400, message: lastOfRequired };
  }
  if (removed) {
    const { auth } = context.session.authClient();
    const { error } = await auth.mfa.unenroll({ factorId });
    if (error) {
      const failure = generalFailure(error);
      return { removed: false, ...(failure ?? { status: 400, message: "It could not be removed. Try again." }) };
    }
    // The token says less from now on: a new one says so at once.
    await auth.refreshSession();
    await recordEvent(context, { userId: user.id, kind: "authenticator_removed", details: { name: removed.name } });
  }
  if (others.length === 0) await removeRecoveryCodes(context, user.id);
  return { removed: true };
}

const lastOfRequired =
  "This account must have an authenticator, and this is its last one. Add another one first, then remove this one.";
