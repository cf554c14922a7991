import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { readClientRequest } from "../../openid/client-auth.ts";
import { handleClientRequest } from "../../openid/oauth-error.ts";
import { answerPushedRequest } from "../../openid/pushed-request.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "client" };

/** `POST /oauth/par` (RFC 9126 section 2). */
export async function action({ request, context }: ActionFunctionArgs) {
  return handleClientRequest(context, async () =>
    answerPushedRequest(context, await readClientRequest(request, context)),
  );
}
