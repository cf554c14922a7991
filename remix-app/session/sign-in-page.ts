import { type AppLoadContext, redirect } from "@remix-run/node";
import { cookies } from "../http/cookie-table.ts";
import { readCookie } from "../http/cookies.ts";
import { addReturnUrl, redirectTarget } from "../http/redirect-target.ts";
import { describeEnd } from "./end-reason.ts";
import { getUser } from "./user.ts";

/** The maximum number of accounts in one browser. `private.add_account` has the same value. */
export const maxAccounts = 10;

/**
 * Returns whether a request is for `/add-account` or a page below it. These pages keep the current account signed in.
 */
export function isAddAccount(request: Request): boolean {
  return /^\/add-account(\/|$)/.test(new URL(request.url).pathname);
}

/**
 * Returns what the page shows to a person who adds an account or signs in to an existing account again.
 * @throws Response a redirect to `/accounts` if this browser has the maximum number of other accounts
 */
export function openAddAccount(
  context: AppLoadContext,
  query: URLSearchParams,
): { email: string; again: boolean; end: string; stays: string } {
  const { accounts } = context.session;
  const listed = accounts.find(({ id }) => id === query.get("account"));
  // The account in the URL, or the account whose session had ended when a switch was attempted.
  const email = listed?.email ?? (query.has("ended") ? readCookie(context, cookies.signInHint) : "");
  requireRoomFor(context, email);
  const active = accounts.find((account) => account.active && account.email !== email);
  return {
    email,
    again: query.has("ended") || query.has("account"),
    end: describeEnd(listed?.endReason ?? null),
    stays: active?.email ?? "",
  };
}

/**
 * Redirects a person without an active account to the account chooser if this browser has accounts.
 * @throws Response the redirect
 */
export function redirectToChooser({ session }: AppLoadContext, returnUrl: string): void {
  if (session.auth.status === "anonymous" && session.accounts.some(({ requiresReauth }) => !requiresReauth)) {
    throw redirect(addReturnUrl("/accounts", returnUrl || "/"));
  }
}

/**
 * Returns the account of this browser that was signed out last, and why, or null if no account was signed out. Only the
 * browser with the device's secret learns this.
 */
export function findEndedAccount({ session }: AppLoadContext): { email: string | null; end: string } | null {
  const ended = session.accounts.find(({ requiresReauth }) => requiresReauth);
  return ended ? { email: ended.email, end: describeEnd(ended.endReason) } : null;
}

/**
 * Checks that this browser has room for an account, before a single-use credential is consumed.
 * @param email in lower case
 * @throws Response a redirect to the accounts if this browser has the maximum number of other accounts
 */
export function requireRoomFor({ session: { accounts } }: AppLoadContext, email: string | null): void {
  const listed = accounts.some((account) => account.email === email);
  if (accounts.length >= maxAccounts && !listed) throw redirect("/accounts?full");
}

/**
 * Redirects signed-in people from the sign-in pages to their destination. People with a pending second factor may stay,
 * because they may want to use another account.
 * @throws Response the redirect
 */
export async function redirectSignedIn(context: AppLoadContext, returnUrl: string | null): Promise<void> {
  const user = await getUser(context);
  if (user?.mfa.satisfied) throw redirect(redirectTarget(returnUrl, { context, fallback: "/" }));
}

/**
 * Returns the email of this browser's active account, or null if no account is active or its email is unknown. Pages
 * show this email to warn that an emailed link will replace the active account. The session does not have to be
 * verified, because these pages give no access through it.
 */
export function activeEmail({ session: { auth, accounts } }: AppLoadContext): string | null {
  return auth.status === "anonymous" ? null : (accounts.find(({ active }) => active)?.email ?? null);
}
