import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { cookies } from "../http/cookie-table.ts";
import { readCookie } from "../http/cookies.ts";
import { detour, redirectTarget } from "../http/redirect-target.ts";
import { getUser } from "./user.ts";

/** Accounts in one browser; `private.add_account` says the same. */
export const maxAccounts = 10;

/** Whether a sign-in page is asked for as `/add-account`, by who is signed in and stays so. */
export function isAddAccount(request: Request): boolean {
  return /^\/add-account(\/|$)/.test(new URL(request.url).pathname);
}

/**
 * What the page shows to who adds an account, or signs in to one again.
 * @throws Response a redirect to the accounts where this browser holds as many as it may
 */
export function openAddAccount(
  context: AppLoadContext,
  query: URLSearchParams,
): { email: string; again: boolean; stays: string } {
  const { accounts } = context.session;
  const named = accounts.find(({ id }) => id === query.get("account"));
  // The account in the address, or the one whose session had ended when a switch was tried.
  const email = named?.email ?? (query.has("ended") ? readCookie(context, cookies.signInHint) : "");
  requireRoomFor(context, email);
  const active = accounts.find((account) => account.active);
  return { email, again: query.has("ended") || query.has("account"), stays: active?.email ?? "" };
}

/**
 * Sends who is signed in to nothing here, but holds accounts that can be entered, to choose one of them.
 * @throws Response the redirect
 */
export function redirectToChooser({ session }: AppLoadContext, returnUrl: string): void {
  if (session.auth.status === "anonymous" && session.accounts.some(({ requiresReauth }) => !requiresReauth)) {
    throw redirect(detour("/accounts", returnUrl || "/"));
  }
}

/**
 * Before something is used up that works once: a browser that is full could not keep whom it signs in.
 * @param email in lower case
 * @throws Response a redirect to the accounts where this browser holds as many as it may, and not this one
 */
export function requireRoomFor({ session: { accounts } }: AppLoadContext, email: string | null): void {
  const listed = accounts.some((account) => account.email === email);
  if (accounts.length >= maxAccounts && !listed) throw redirect("/accounts?full");
}

/**
 * Sends people who are signed in already on to where they were going, away from the sign-in pages. Who has yet to prove
 * a second factor may stay: they may want to be somebody else.
 * @throws Response the redirect
 */
export async function redirectSignedIn(context: AppLoadContext, returnUrl: string | null): Promise<void> {
  const user = await getUser(context);
  if (user?.mfa.satisfied) throw redirect(redirectTarget(returnUrl, { context, fallback: "/" }));
}

/**
 * Returns the email of the account that a mailed link would replace in this browser, for the page that asks first; null
 * if there is none, or it is unknown. These pages grant nothing by the session and help people who are locked out, so an
 * account that cannot be checked does not close them.
 */
export function signedInAs({ session: { auth, accounts } }: AppLoadContext): string | null {
  return auth.status === "anonymous" ? null : (accounts.find(({ active }) => active)?.email ?? null);
}
