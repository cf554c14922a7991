import type { ActionFunctionArgs } from "@remix-run/node";
import { readAppRequest, requireAppClient } from "../../apps/app-client.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { sessionTokenRequest } from "../../satellites/app-calls.ts";
import { introspectAppSession } from "../../satellites/app-sessions.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "basic" };

/** `POST /api/v1/auth/app-sessions/introspect`: returns a session's current state in the format of RFC 7662. */
export async function action({ request, context }: ActionFunctionArgs) {
  const client = requireAppClient(request, context);
  const { token } = await readAppRequest(request, { context, client, schema: sessionTokenRequest });
  return Response.json(await introspectAppSession(context, { client, token }));
}
