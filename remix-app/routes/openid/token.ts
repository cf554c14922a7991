import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { answerClient } from "../../openid/oauth-error.ts";
import { answerTokenRequest } from "../../openid/token-endpoint.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/token`. */
export function action({ request, context }: ActionFunctionArgs) {
  return answerClient(context, () => answerTokenRequest(context, request));
}
