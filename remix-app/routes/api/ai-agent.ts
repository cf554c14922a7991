import type { ActionFunctionArgs } from "@remix-run/node";
import type { RouteHandle } from "../../http/route-table.ts";
import { disconnectAgent, requireAgentLogin } from "../../studio/agents/agents.ts";

export const handle: RouteHandle = { methods: ["DELETE"] };

/** `DELETE /api/v1/workspaces/{wsId}/ai/agents/{id}`: revokes a coding agent's connection. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const login = requireAgentLogin(context, { request, params });
  await disconnectAgent(context, { ...login, connectionId: params.connectionId });
  return new Response(null, { status: 204 });
}
