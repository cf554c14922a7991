import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { handleClientRequest } from "../../openid/oauth-error.ts";
import { answerTokenRequest } from "../../openid/token-endpoint.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/token`. */
export function action({ request, context }: ActionFunctionArgs) {
  return handleClientRequest(context, () => answerTokenRequest(context, request));
}
