import { type ActionFunctionArgs, redirect } from "@remix-run/server-runtime";
import { recordEvent } from "../activity/record-event.ts";
import { readForm } from "../http/form.ts";
import { revokeSession } from "../identity/revoke-session.ts";

/** Signs out: revokes the session at the identity backend and takes every variant of its cookie from the browser. */
export async function action({ request, context }: ActionFunctionArgs) {
  await readForm(request, context);
  const revoked = await revokeSession(context);
  context.session.clear();
  const { auth } = context.session;
  if (revoked && auth.status === "authenticated") {
    await recordEvent(context, { userId: auth.claims.sub, kind: "sign_out" });
  }
  throw redirect(revoked ? "/login" : "/login?signedOutHereOnly");
}
