import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { handleClientRequest } from "../../openid/oauth-error.ts";
import { answerUserinfo } from "../../openid/userinfo.ts";

export const handle: RouteHandle = { methods: ["GET", "HEAD", "POST"], authorization: "client" };

/** `GET /oauth/userinfo`. */
export function loader({ request, context }: LoaderFunctionArgs) {
  return handleClientRequest(context, () => answerUserinfo(context, request));
}

/**
 * `POST /oauth/userinfo`: answers like `GET`. Clients may use either method (OpenID Connect Core 1.0 section 5.3.1).
 */
export function action({ request, context }: ActionFunctionArgs) {
  return handleClientRequest(context, () => answerUserinfo(context, request));
}
