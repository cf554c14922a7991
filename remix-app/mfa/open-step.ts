import { type AppLoadContext, redirect } from "@remix-run/node";
import { addReturnUrl, redirectTarget } from "../http/redirect-target.ts";
import { readSignInDemand } from "../session/sign-in-demand.ts";
import { getUser, isFresh, replacePasswordPath, secondStepPath, type User } from "../session/user.ts";

/** A page that a user must pass before they reach their destination, such as the second factor's page. */
export interface Step {
  user: User;
  /** A path on our origin, from `returnUrl` in the query. */
  destination: string;
}

/**
 * Opens a page of the second step for a signed-in user. Does not check whether the user has passed a factor, because
 * each page checks this itself.
 * @throws Response a redirect to the sign-in page that keeps the destination
 * @throws Response 503 AUTH_UNAVAILABLE, as {@link getUser}
 */
export async function requireSecondStepUser(
  context: AppLoadContext,
  { request, fallback = "/" }: { request: Request; fallback?: string },
): Promise<Step> {
  const returnUrl = new URL(request.url).searchParams.get("returnUrl");
  const destination = redirectTarget(returnUrl, { context, fallback });
  const user = await getUser(context);
  if (!user) throw redirect(addReturnUrl("/login", destination));
  return { user, destination };
}

/**
 * Opens a page for users who have to confirm their identity. Users who still have to enter their authenticator's code
 * go to the challenge.
 * @throws Response a redirect to the sign-in or second step that the user must complete first, or to the destination if
 * the last proof is recent enough
 */
export async function openStepUp(context: AppLoadContext, request: Request): Promise<Step> {
  const step = await requireSecondStepUser(context, { request });
  const { mfa } = step.user;
  if (!mfa.satisfied && (mfa.enrolled || mfa.policy === "recovery_in_progress")) {
    throw redirect(secondStepPath(mfa, step.destination));
  }
  if (hasRecentProof(context, step)) throw redirect(step.destination);
  return step;
}

/**
 * Returns whether the user's last proof of identity is recent enough for the destination. Some destinations accept only
 * a proof made at or after a recorded time.
 */
function hasRecentProof(context: AppLoadContext, { user, destination }: Step): boolean {
  const since = readSignInDemand(context, destination);
  return since === null ? isFresh(user) : user.provenAt.getTime() >= since * 1_000;
}

/**
 * Opens the enrollment page for users without an authenticator, and for users who have passed their second factor.
 * Requires a recent proof of identity, so that an open session can't be used to enroll someone else's app.
 * @throws Response a redirect to the step that the user must complete first, such as the step-up
 */
export async function openEnrollment(context: AppLoadContext, request: Request): Promise<Step> {
  const step = await requireSecondStepUser(context, { request });
  const { user, destination } = step;
  const { enrolled, satisfied, policy } = user.mfa;
  if ((enrolled && !satisfied) || policy === "recovery_in_progress") {
    throw redirect(secondStepPath(user.mfa, destination));
  }
  if (satisfied && user.mustReplacePassword)
    throw redirect(replacePasswordPath(addReturnUrl("/mfa/enroll", destination)));
  if (!isFresh(user)) throw redirect(addReturnUrl("/step-up", addReturnUrl("/mfa/enroll", destination)));
  return step;
}
