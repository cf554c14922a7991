import { type ActionFunctionArgs, redirect } from "@remix-run/server-runtime";
import { recordEvent } from "../activity/record-event.ts";
import { readForm } from "../http/form.ts";
import { redirectTarget } from "../http/redirect-target.ts";
import { revokeSession } from "../identity/revoke-session.ts";

/**
 * Signs out: revokes the session at the identity backend and takes every variant of its cookie from the browser. The
 * next sign-in leads to `returnUrl`, where the form names a path of ours.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  const form = await readForm(request, context);
  const returnUrl = redirectTarget(form.get("returnUrl"), { origin: context.origin, fallback: "" });
  const revoked = await revokeSession(context);
  context.session.clear();
  const { auth } = context.session;
  if (revoked && auth.status === "authenticated") {
    await recordEvent(context, { userId: auth.claims.sub, kind: "sign_out" });
  }
  const query = [returnUrl && new URLSearchParams({ returnUrl }), revoked ? "" : "signedOutHereOnly"].filter(Boolean);
  throw redirect(query.length > 0 ? `/login?${query.join("&")}` : "/login");
}
