import type { ActionFunctionArgs } from "@remix-run/node";
import type { SignOutResponse } from "../../session/account-operations.ts";
import { signOutEverywhere } from "../../session/account-sessions.ts";
import { requireFreshUser } from "../../session/user.ts";

/** `POST /api/v1/auth/accounts/logout-everywhere`: signs the active account out of every device and app. */
export async function action({ request, context }: ActionFunctionArgs) {
  await signOutEverywhere(context, await requireFreshUser(context, request));
  const { session } = context;
  if (session.auth.status === "authenticated" && session.auth.via === "cookie") session.clear();
  const others = (session.device?.view.accounts.length ?? 0) > 1;
  return Response.json({
    activeAccountId: null,
    redirectTo: others ? "/accounts" : "/login",
  } satisfies SignOutResponse);
}
