import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { answerClient } from "../../openid/oauth-error.ts";
import { answerIntrospection } from "../../openid/token-inspection.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/introspect`. */
export function action({ request, context }: ActionFunctionArgs) {
  return answerClient(context, () => answerIntrospection(context, request));
}
