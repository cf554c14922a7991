import type { ActionFunctionArgs } from "@remix-run/node";
import { readBody } from "../../http/body-limit.ts";
import { pageAccountHeader, requirePageAccount } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import {
  callGatewayAsMember,
  endpoints,
  type PlaygroundEndpoint,
} from "../../studio/playground/call-gateway-as-member.ts";
import { requirePermission } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { methods: ["POST"] };

/**
 * `POST /api/v1/workspaces/{wsId}/ai/playground/{chat|speech|embeddings}`: the gateway endpoint of that name, called by
 * the playground with the member's session. Bodies and responses are the gateway's, byte for byte.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { endpoint = "" } = params;
  const permission = "use_ai_studio";
  const pageAccount = request.headers.get(pageAccountHeader);
  if (pageAccount !== null) requirePageAccount(context, { request, pageAccount });
  const { workspace } = await requirePermission(context, { request, params, permission });
  if (!Object.hasOwn(endpoints, endpoint)) throw problem("NOT_FOUND", { requestId: context.requestId });
  return callGatewayAsMember(context, {
    path: endpoints[endpoint as PlaygroundEndpoint],
    workspaceId: workspace.id,
    body: await readBody(request, context),
    contentType: request.headers.get("content-type"),
    signal: request.signal,
  });
}
