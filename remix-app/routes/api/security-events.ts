import type { LoaderFunctionArgs } from "@remix-run/node";
import { listEvents } from "../../activity/list-events.ts";
import { readPageQuery } from "../../http/list-page.ts";
import { requireUser } from "../../session/user.ts";

/** `GET /api/v1/users/me/security-events`: lists the account's security events, newest first. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { requestId } = context;
  return Response.json(await listEvents(user, { ...readPageQuery(request, context), requestId }));
}
