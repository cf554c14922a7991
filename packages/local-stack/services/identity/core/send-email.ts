import type { MailKind } from "../config/mail-texts.ts";
import type { Sql } from "../db.ts";
import type { Deps } from "./deps.ts";
import { AuthError, unexpected } from "./errors.ts";
import { hashToken, type OneTimeTokenType, pkcePrefix, storeOneTimeToken } from "./one-time-tokens.ts";
import { randomDigits } from "./random.ts";
import { type User, type UserChanges, updateUser } from "./users.ts";

/** The purpose of an email's link and code, as `/verify` names it. */
export type LinkType = "signup" | "invite" | "recovery" | "magiclink" | "email_change";

const linkKinds: Record<LinkType, MailKind> = {
  signup: "confirmation",
  invite: "invite",
  recovery: "recovery",
  magiclink: "magic_link",
  email_change: "email_change",
};

/** Options of an email: where its link finally redirects, and whether redeeming the link returns a code. */
export type MailOptions = { deps: Deps; redirectTo: string; pkce: boolean };

/** Returns the link to `/verify`, which redeems a token by a plain GET. */
export function actionLink(
  deps: Deps,
  { type, hash, redirectTo }: { type: LinkType; hash: string; redirectTo: string },
): string {
  const url = new URL(deps.config.mailTexts[linkKinds[type]].linkPath, deps.config.API_EXTERNAL_URL);
  const target = /[&=#]/.test(redirectTo) ? encodeURIComponent(redirectTo) : redirectTo;
  url.search = `token=${encodeURIComponent(hash)}&type=${encodeURIComponent(type)}&redirect_to=${target}`;
  return url.toString();
}

/** @throws AuthError 429 over_email_send_rate_limit if the previous email for the same purpose is too recent */
function requireMailPause(sentAt: Date | null, { config, clock }: Deps): void {
  if (!sentAt) return;
  const leftMs = sentAt.getTime() + config.GOTRUE_SMTP_MAX_FREQUENCY - clock().getTime();
  if (leftMs <= 0) return;
  throw new AuthError(
    429,
    "over_email_send_rate_limit",
    `For security purposes, you can only request this after ${Math.floor(leftMs / 1_000)} seconds.`,
  );
}

/**
 * @throws AuthError 400 email_address_not_authorized if allowed addresses are configured and `address` is not among
 * them
 */
function requireAuthorizedAddress(deps: Deps, address: string): void {
  const allowed = deps.config.GOTRUE_EXTERNAL_EMAIL_AUTHORIZED_ADDRESSES;
  const bare = address.replace(/\+[^@]+@/, "@").toLowerCase();
  if (allowed.length === 0 || allowed.some((other) => other.toLowerCase() === bare)) return;
  throw new AuthError(
    400,
    "email_address_not_authorized",
    `Email address "${address}" cannot be used as it is not authorized`,
  );
}

/** @throws AuthError 429 over_email_send_rate_limit if the limit for all emails is reached */
function requireMailBudget({ config, mailLimit }: Deps): void {
  const blocked = config.GOTRUE_RATE_LIMIT_EMAIL_SENT.events === 0;
  if (blocked || (!config.GOTRUE_MAILER_AUTOCONFIRM && !mailLimit.take())) {
    throw new AuthError(429, "over_email_send_rate_limit", "email rate limit exceeded");
  }
}

type Message = {
  user: User;
  to: string;
  kind: MailKind;
  type?: LinkType;
  code: string;
  hash: string;
  newEmail?: string;
};

async function send({ deps, redirectTo }: MailOptions, message: Message): Promise<void> {
  const { user, to, kind, type, code, hash, newEmail } = message;
  const { GOTRUE_SITE_URL } = deps.config;
  try {
    await deps.mailer.send({
      kind,
      to,
      data: {
        SiteURL: GOTRUE_SITE_URL,
        ConfirmationURL: type ? actionLink(deps, { type, hash, redirectTo }) : "",
        Email: user.email ?? "",
        NewEmail: newEmail ?? "",
        SendingTo: to,
        Token: code,
        TokenHash: hash,
        Data: user.raw_user_meta_data ?? {},
        RedirectTo: redirectTo,
        Elsewhere: redirectTo === GOTRUE_SITE_URL ? "" : redirectTo,
      },
    });
  } catch (error) {
    throw unexpected(`Error sending ${kind.replace("_", " ")} email`, error);
  }
}

type Purpose = { type: Exclude<LinkType, "email_change">; tokenType: OneTimeTokenType; hashColumn: HashColumn };
type HashColumn = "confirmation_token" | "recovery_token";

/** The token type and the hash column of each purpose. A magic link uses those of a recovery. */
const purposes: Record<Purpose["type"], Purpose> = {
  signup: { type: "signup", tokenType: "confirmation_token", hashColumn: "confirmation_token" },
  invite: { type: "invite", tokenType: "confirmation_token", hashColumn: "confirmation_token" },
  recovery: { type: "recovery", tokenType: "recovery_token", hashColumn: "recovery_token" },
  magiclink: { type: "magiclink", tokenType: "recovery_token", hashColumn: "recovery_token" },
};

/**
 * Creates a new token for an account without sending an email.
 * @returns the account, the code and its stored hash
 */
export async function issueEmailToken(
  sql: Sql,
  { deps, user, type, pkce }: { deps: Deps; user: User; type: Purpose["type"]; pkce: boolean },
): Promise<{ user: User; code: string; hash: string }> {
  const { tokenType, hashColumn } = purposes[type];
  const email = user.email ?? "";
  const code = randomDigits(deps.random, deps.config.GOTRUE_MAILER_OTP_LENGTH);
  const hash = (pkce ? pkcePrefix : "") + hashToken(email, code);
  const now = deps.clock();
  const changes: UserChanges = { [hashColumn]: hash };
  if (hashColumn === "confirmation_token") changes.confirmation_sent_at = now;
  else changes.recovery_sent_at = now;
  if (type === "invite") changes.invited_at = now;
  const changed = await updateUser(sql, { id: user.id, now, changes });
  await storeOneTimeToken(sql, { deps, userId: user.id, type: tokenType, hash, relatesTo: email });
  return { user: changed, code, hash };
}

/**
 * Emails a new token to an account. The row must be locked, so that only one of several concurrent callers sends.
 * @throws AuthError 429 if the previous email is too recent or the email rate limit is exceeded, 500 if the email could
 * not be sent
 */
export async function sendEmailToken(
  sql: Sql,
  { user, type, ...options }: MailOptions & { user: User; type: Purpose["type"] },
): Promise<User> {
  const { deps, pkce } = options;
  const { hashColumn } = purposes[type];
  if (type !== "invite") {
    requireMailPause(hashColumn === "confirmation_token" ? user.confirmation_sent_at : user.recovery_sent_at, deps);
  }
  requireAuthorizedAddress(deps, user.email ?? "");
  requireMailBudget(deps);
  const issued = await issueEmailToken(sql, { deps, user, type, pkce });
  await send(options, { ...issued, to: user.email ?? "", kind: linkKinds[type], type });
  return issued.user;
}

/** Emails the code that a sensitive change requires. */
export async function sendReauthentication(
  sql: Sql,
  { user, ...options }: MailOptions & { user: User },
): Promise<User> {
  const { deps } = options;
  const email = user.email ?? "";
  requireMailPause(user.reauthentication_sent_at, deps);
  requireAuthorizedAddress(deps, email);
  requireMailBudget(deps);
  const now = deps.clock();
  const code = randomDigits(deps.random, deps.config.GOTRUE_MAILER_OTP_LENGTH);
  const hash = hashToken(email, code);
  const changed = await updateUser(sql, {
    id: user.id,
    now,
    changes: { reauthentication_token: hash, reauthentication_sent_at: now },
  });
  await storeOneTimeToken(sql, { deps, userId: user.id, type: "reauthentication_token", hash, relatesTo: email });
  await send(options, { user: changed, to: email, kind: "reauthentication", code, hash });
  return changed;
}

/** Starts an email change: sends a code to the new mailbox, and also to the old one if both must confirm. */
export async function sendEmailChange(
  sql: Sql,
  { user, newEmail, ...options }: MailOptions & { user: User; newEmail: string },
): Promise<User> {
  const { deps, pkce } = options;
  requireMailPause(user.email_change_sent_at, deps);
  requireAuthorizedAddress(deps, newEmail);
  const both = deps.config.GOTRUE_MAILER_SECURE_EMAIL_CHANGE_ENABLED && !!user.email;
  if (both) requireAuthorizedAddress(deps, user.email ?? "");
  requireMailBudget(deps);
  const now = deps.clock();
  const make = (address: string) => {
    const code = randomDigits(deps.random, deps.config.GOTRUE_MAILER_OTP_LENGTH);
    return { to: address, code, hash: (pkce ? pkcePrefix : "") + hashToken(address, code) };
  };
  const toNew = make(newEmail);
  const toOld = both ? make(user.email ?? "") : undefined;
  const changed = await updateUser(sql, {
    id: user.id,
    now,
    changes: {
      email_change: newEmail,
      email_change_token_new: toNew.hash,
      ...(toOld ? { email_change_token_current: toOld.hash } : {}),
      email_change_sent_at: now,
      email_change_confirm_status: 0,
    },
  });
  const base = { deps, userId: user.id };
  await storeOneTimeToken(sql, { ...base, type: "email_change_token_new", hash: toNew.hash, relatesTo: newEmail });
  if (toOld) {
    await storeOneTimeToken(sql, {
      ...base,
      type: "email_change_token_current",
      hash: toOld.hash,
      relatesTo: toOld.to,
    });
  }
  for (const mail of toOld ? [toNew, toOld] : [toNew]) {
    await send(options, { user: changed, kind: "email_change", type: "email_change", newEmail, ...mail });
  }
  return changed;
}
