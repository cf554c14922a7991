import type { ActionFunctionArgs } from "@remix-run/node";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { endSession } from "../../session/account-sessions.ts";
import { requireFreshUser, requireUser } from "../../session/user.ts";

export const handle: RouteHandle = { methods: ["DELETE"] };

/**
 * `DELETE /api/v1/users/me/sessions/{id}`: ends a session. Ending any session but the current one requires a step-up.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const sessionId = params.sessionId ?? "";
  let user = await requireUser(context, request);
  if (sessionId !== user.sessionId) user = await requireFreshUser(context, request);
  if (!(await endSession(context, { user, sessionId }))) throw problem("NOT_FOUND", { requestId: context.requestId });
  if (sessionId === user.sessionId) context.session.clear();
  return new Response(null, { status: 204 });
}
