import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { redirectTarget } from "../http/redirect-target.ts";
import { getUser } from "./user.ts";

/**
 * Sends people who are signed in already on to where they were going, away from the sign-in pages. Who has yet to prove
 * a second factor may stay: they may want to be somebody else.
 * @throws Response the redirect
 */
export async function redirectSignedIn(context: AppLoadContext, returnUrl: string | null): Promise<void> {
  const user = await getUser(context);
  if (user?.mfa.satisfied) throw redirect(redirectTarget(returnUrl, { origin: context.origin, fallback: "/" }));
}
