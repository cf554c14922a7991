import type { ActionFunctionArgs } from "@remix-run/node";
import { readAppRequest, requireAppClient } from "../../apps/app-client.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { sessionTokenRequest } from "../../satellites/app-calls.ts";
import { refreshAppSession } from "../../satellites/app-sessions.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "basic" };

/** `POST /api/v1/auth/app-sessions/refresh`: replaces a session's token with a new one. */
export async function action({ request, context }: ActionFunctionArgs) {
  const client = requireAppClient(request, context);
  const { token } = await readAppRequest(request, { context, client, schema: sessionTokenRequest });
  return Response.json(await refreshAppSession(context, { client, token }));
}
