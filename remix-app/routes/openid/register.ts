import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { handleClientRequest } from "../../openid/oauth-error.ts";
import { registerClient } from "../../openid/register-client.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/register` (RFC 7591). */
export function action({ request, context }: ActionFunctionArgs) {
  return handleClientRequest(context, () => registerClient(context, request));
}
