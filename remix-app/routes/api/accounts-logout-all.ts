import type { ActionFunctionArgs } from "@remix-run/node";
import type { SignOutResponse } from "../../session/account-operations.ts";
import { signOutAll } from "../../session/sign-out.ts";
import { accountProblem } from "../../session/switch-account.ts";

/** `POST /api/v1/auth/accounts/logout-all`: signs this browser out of all its accounts. */
export async function action({ context }: ActionFunctionArgs) {
  const { auth, device } = context.session;
  if (auth.status === "anonymous" && !device) throw accountProblem("no_device", context);
  if (!(await signOutAll(context))) throw accountProblem("unavailable", context);
  return Response.json({ activeAccountId: null, redirectTo: "/login" } satisfies SignOutResponse);
}
