import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { redirectTarget } from "../http/redirect-target.ts";
import { getUser } from "./user.ts";

/**
 * Sends people who are signed in already on to where they were going, away from the sign-in pages.
 * @throws Response the redirect
 */
export async function redirectSignedIn(context: AppLoadContext, returnUrl: string | null): Promise<void> {
  if (await getUser(context)) throw redirect(redirectTarget(returnUrl, { origin: context.origin, fallback: "/" }));
}
