import { type ActionFunctionArgs, redirect } from "@remix-run/node";
import { readForm } from "../../http/form.ts";
import { redirectTarget } from "../../http/redirect-target.ts";
import { signOutAll } from "../../session/sign-out.ts";

/**
 * Signs this browser out of all its accounts: ends their sessions and removes all their cookies. If the form's
 * `returnUrl` is one of our paths, the next sign-in continues there.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const returnUrl = redirectTarget(form.get("returnUrl"), { context, fallback: "" });
  const revoked = await signOutAll(context);
  const query = [returnUrl && new URLSearchParams({ returnUrl }), revoked ? "" : "signedOutHereOnly"].filter(Boolean);
  throw redirect(query.length > 0 ? `/login?${query.join("&")}` : "/login");
}
