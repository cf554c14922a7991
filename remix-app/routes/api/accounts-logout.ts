import type { ActionFunctionArgs } from "@remix-run/node";
import type { SignOutResponse } from "../../session/account-operations.ts";
import { signOutAccount, signOutAll } from "../../session/sign-out.ts";
import { accountProblem } from "../../session/switch-account.ts";

/**
 * `POST /api/v1/auth/accounts/logout`: signs out of the active account. The most recently used of the other accounts
 * becomes active.
 */
export async function action({ context }: ActionFunctionArgs) {
  const { auth } = context.session;
  if (auth.status === "unavailable") throw accountProblem("unavailable", context);
  if (auth.status !== "authenticated") throw accountProblem("no_device", context);
  if (auth.via === "bearer") {
    // There is no other account to move to.
    if (!(await signOutAll(context))) throw accountProblem("unavailable", context);
    return Response.json({ activeAccountId: null, redirectTo: "/login" } satisfies SignOutResponse);
  }
  const { status, ...answer } = await signOutAccount(context, auth.claims.sub);
  if (status !== "signed_out") throw accountProblem(status, context);
  return Response.json(answer);
}
