import { type ActionFunctionArgs, redirect } from "@remix-run/node";
import { readForm } from "../../http/form.ts";
import { endOtherSessions, endSession } from "../../session/account-sessions.ts";
import { requireFreshUser } from "../../session/user.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";

const sessionsCardPath = "/settings/security#sessions";

/** Redirects to the list of sessions. After a step-up, the browser returns to this URL with a GET request. */
export function loader() {
  return redirect(sessionsCardPath);
}

/** Ends one other session, or all other sessions. */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireFreshUser(context, request);
  const session = (await readForm(request, context)).get("session");
  if (session === "others") {
    await endOtherSessions(context, user);
    leaveNotice(context, { card: "sessions", done: "others" });
  } else if (typeof session === "string" && session !== user.sessionId) {
    const ended = await endSession(context, { user, sessionId: session });
    leaveNotice(context, { card: "sessions", done: ended ? "one" : "over" });
  }
  throw redirect(sessionsCardPath, 303);
}
