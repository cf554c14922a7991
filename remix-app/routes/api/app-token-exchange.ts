import type { ActionFunctionArgs } from "@remix-run/node";
import { readAppRequest, requireAppClient } from "../../apps/app-client.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { exchangeRequest } from "../../satellites/app-calls.ts";
import { exchangeAppToken } from "../../satellites/app-tokens.ts";

export const handle: RouteHandle = { methods: ["POST"], authorization: "basic" };

/** `POST /api/v1/auth/app-token/exchange`: issues a `ttr_app_` token for the gateway to an external app. */
export async function action({ request, context }: ActionFunctionArgs) {
  const client = requireAppClient(request, context);
  const exchange = await readAppRequest(request, { context, client, schema: exchangeRequest });
  return Response.json(await exchangeAppToken(context, { client, request: exchange }));
}
