import type { ActionFunctionArgs } from "@remix-run/node";
import { readAppRequest, requireAppClient } from "../../apps/app-client.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { sessionTokenRequest } from "../../satellites/app-calls.ts";
import { revokeAppCredential } from "../../satellites/app-tokens.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "basic" };

/** `POST /api/v1/auth/app-sessions/revoke`: revokes a session or a gateway token. An unknown token is not an error. */
export async function action({ request, context }: ActionFunctionArgs) {
  const client = requireAppClient(request, context);
  const { token } = await readAppRequest(request, { context, client, schema: sessionTokenRequest });
  await revokeAppCredential(context, { client, token });
  return new Response(null, { status: 204 });
}
