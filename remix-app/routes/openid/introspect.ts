import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { handleClientRequest } from "../../openid/oauth-error.ts";
import { answerIntrospection } from "../../openid/token-inspection.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/introspect`. */
export function action({ request, context }: ActionFunctionArgs) {
  return handleClientRequest(context, () => answerIntrospection(context, request));
}
