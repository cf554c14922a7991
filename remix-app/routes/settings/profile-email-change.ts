import { type ActionFunctionArgs, redirect } from "@remix-run/node";
import { z } from "zod";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { cancelEmailChange, resendEmailChange } from "../../session/email-change.ts";
import { requireUser } from "../../session/user.ts";
import { leaveNotice } from "../../settings/settings-notice.ts";

const emailCardPath = "/settings/profile#email";

/** Redirects to the email card, because a browser that returns from a sign-in sends a GET. */
export function loader() {
  return redirect(emailCardPath);
}

/** Resends the emails of a pending change, or cancels it. */
export async function action({ request, context }: ActionFunctionArgs) {
  const user = await requireUser(context, request);
  const what = z.enum(["resend", "cancel"]).safeParse((await readForm(request, context)).get("do"));
  if (!what.success) throw problem("INVALID_REQUEST", { requestId: context.requestId });
  leaveNotice(context, { card: "email", done: await outcomeOf() });
  throw redirect(emailCardPath, 303);

  async function outcomeOf(): Promise<string> {
    if (what.data === "cancel") return (await cancelEmailChange(context, { user })) ? "canceled" : "none";
    const answer = await resendEmailChange(context, { user });
    if (answer === null) return "none";
    if (answer.status === "sent") return "resent";
    return answer.httpStatus === 429 ? "too-soon" : "failed";
  }
}
