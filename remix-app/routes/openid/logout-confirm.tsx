import { type ActionFunctionArgs, redirect } from "@remix-run/node";
import { useActionData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { readLogoutRequest, signOutForClient } from "../../openid/rp-logout.ts";
import { getUser } from "../../session/user.ts";
import { pageTitle } from "../../ui/brand.ts";
import { LeavePage, SignedOutPage } from "../../ui/leave-page.tsx";

export const handle: RouteHandle = { methods: ["POST"] };
export const meta = pageTitle("Sign out");

/** Signs the person out after they confirm. The route takes the same query as the sign-out page. */
export async function action({ request, context }: ActionFunctionArgs) {
  const ask = () => redirect(`/oauth/logout${new URL(request.url).search}`, 303);
  const logout = await readLogoutRequest(context, request);
  if (!logout) throw ask();
  await readForm(request, context);
  const user = await getUser(context);
  if (user) await signOutForClient(context, { user, login: logout.login });
  const { address, displayName } = logout;
  return address && displayName ? { address, displayName } : null;
}

export default function LogoutConfirmPage() {
  const departure = useActionData<typeof action>();
  return departure ? <LeavePage {...departure} signedOut /> : <SignedOutPage />;
}
