import { type Sql, transaction } from "../db.ts";
import type { Deps } from "./deps.ts";
import { parseEmail } from "./email-address.ts";
import { AuthError, invalid } from "./errors.ts";
import { hashToken, storeOneTimeToken } from "./one-time-tokens.ts";
import { hashPassword, requireStrong } from "./passwords.ts";
import { randomDigits, randomPassword } from "./random.ts";
import { actionLink, issueEmailToken, type LinkType } from "./send-email.ts";
import { createEmailUser, findEmailOwner } from "./sign-up.ts";
import { findUserByEmail, type Metadata, mergeMetadata, type User, updateUser } from "./users.ts";
import { loadWireUser } from "./wire-user.ts";

const types = ["signup", "invite", "magiclink", "recovery", "email_change_current", "email_change_new"] as const;
type GenerateType = (typeof types)[number];

export type GenerateLink = {
  type: string;
  email: string;
  newEmail: string;
  password: string;
  data: Metadata;
  redirectTo: string;
  aud: string;
};

/**
 * Creates an email's token without sending the email. No minimum interval between calls applies. Replaces a token that
 * was already emailed to the user. With `magiclink`, an unknown email is signed up.
 * @throws AuthError 404 user_not_found; 422 email_exists, weak_password; 400 validation_failed
 */
export async function generateLink(deps: Deps, request: GenerateLink) {
  const email = parseEmail(request.email);
  const type = types.find((known) => known === request.type);
  if (!type) throw invalid(`Invalid email action link type requested: ${request.type}`);
  const known = await findUserByEmail(deps.db, { email, aud: request.aud });
  if (!known && ["recovery", "email_change_current", "email_change_new"].includes(type)) {
    throw new AuthError(404, "user_not_found", "User with this email not found");
  }
  const asSignUp = !known && type === "magiclink";
  const effective = asSignUp ? "signup" : type;
  const passwordHash = known ? "" : await newPasswordHash(deps, { type: effective, asSignUp, request });
  return transaction(deps.db, async (tx) => {
    const user =
      (await findUserByEmail(tx, { email, aud: request.aud, lock: true })) ??
      (await createEmailUser(tx, { deps, request: { ...request, email }, passwordHash }));
    return issue(tx, { deps, type: effective, user, created: !known, request: { ...request, email } });
  });
}

async function newPasswordHash(
  deps: Deps,
  { type, asSignUp, request }: { type: GenerateType; asSignUp: boolean; request: GenerateLink },
): Promise<string> {
  // An invited account has no password until its invitation is accepted.
  if (type === "invite") return "";
  const password = asSignUp
    ? randomPassword(deps.random, deps.config.GOTRUE_PASSWORD_REQUIRED_CHARACTERS)
    : request.password;
  if (!password) throw invalid("Signup requires a valid password");
  requireStrong(password, deps.config);
  return hashPassword(password, deps.config);
}

type Issue = { deps: Deps; type: GenerateType; user: User; created: boolean; request: GenerateLink };

async function issue(tx: Sql, link: Issue) {
  const { deps, type, user, created, request } = link;
  const pending = type === "signup" || type === "invite";
  if (pending && !created && user.email_confirmed_at) {
    throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
  }
  let current = user;
  if (type === "signup" && !created) {
    const raw_user_meta_data = mergeMetadata(user.raw_user_meta_data, request.data);
    current = await updateUser(tx, { id: user.id, now: deps.clock(), changes: { raw_user_meta_data } });
  }
  const linkType: LinkType = type === "email_change_current" || type === "email_change_new" ? "email_change" : type;
  const issued =
    linkType === "email_change"
      ? await issueEmailChange(tx, link)
      : await issueEmailToken(tx, { deps, user: current, type: linkType, pkce: false });
  return {
    ...(await loadWireUser(tx, issued.user)),
    action_link: actionLink(deps, { type: linkType, hash: issued.hash, redirectTo: request.redirectTo }),
    email_otp: issued.code,
    hashed_token: "answeredHash" in issued ? issued.answeredHash : issued.hash,
    verification_type: type,
    redirect_to: request.redirectTo,
  };
}

async function issueEmailChange(tx: Sql, { deps, type, user, request }: Issue) {
  if (type === "email_change_current" && !deps.config.GOTRUE_MAILER_SECURE_EMAIL_CHANGE_ENABLED) {
    throw invalid("Enable secure email change to generate link for current email");
  }
  const newEmail = parseEmail(request.newEmail);
  if (await findEmailOwner(tx, { email: newEmail, aud: user.aud, except: user.id })) {
    throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
  }
  const code = randomDigits(deps.random, deps.config.GOTRUE_MAILER_OTP_LENGTH);
  const toNew = type === "email_change_new";
  const tokenType = toNew ? "email_change_token_new" : "email_change_token_current";
  const hash = hashToken(toNew ? newEmail : request.email, code);
  const now = deps.clock();
  const changed = await updateUser(tx, {
    id: user.id,
    now,
    changes: {
      email_change: newEmail,
      email_change_sent_at: now,
      email_change_confirm_status: 0,
      [tokenType]: hash,
    },
  });
  const relatesTo = toNew ? newEmail : (user.email ?? "");
  await storeOneTimeToken(tx, { deps, userId: user.id, type: tokenType, hash, relatesTo });
  // Like Supabase Auth, hashes the code with the current email, even if the link is for the new mailbox.
  return { user: changed, code, hash, answeredHash: hashToken(request.email, code) };
}
