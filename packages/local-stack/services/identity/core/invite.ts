import { transaction } from "../db.ts";
import type { Deps } from "./deps.ts";
import { parseEmail } from "./email-address.ts";
import { AuthError } from "./errors.ts";
import { sendEmailToken } from "./send-email.ts";
import { createEmailUser } from "./sign-up.ts";
import { findUserByEmail, type Metadata } from "./users.ts";
import { loadWireUser, type WireUser } from "./wire-user.ts";

/**
 * Invites an email address. The new account has no password until the invitation is accepted.
 * @throws AuthError 422 email_exists if the account is confirmed; 400 validation_failed; 429 over_email_send_rate_limit
 */
export async function invite(
  deps: Deps,
  request: { email: string; data: Metadata; aud: string; redirectTo: string },
): Promise<WireUser> {
  const email = parseEmail(request.email);
  const { aud, redirectTo } = request;
  return transaction(deps.db, async (tx) => {
    const known = await findUserByEmail(tx, { email, aud, lock: true });
    if (known?.email_confirmed_at) {
      throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
    }
    const user = known ?? (await createEmailUser(tx, { deps, request: { ...request, email }, passwordHash: "" }));
    return loadWireUser(tx, await sendEmailToken(tx, { deps, user, type: "invite", redirectTo, pkce: false }));
  });
}
