import type { AppLoadContext } from "@remix-run/server-runtime";

/**
 * Whose account a link from a mail would take the place of in this browser, for the page that asks first; null where it
 * is nobody's, or nobody can say. Those pages open nothing by the session, and are the way out for who is locked out: an
 * account that cannot be judged does not close them.
 */
export function signedInAs({ session: { auth, accounts } }: AppLoadContext): string | null {
  return auth.status === "anonymous" ? null : (accounts.find(({ active }) => active)?.email ?? null);
}
