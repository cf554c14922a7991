import type { ActionFunctionArgs } from "@remix-run/node";
import { issueAgentKey, requireAgentLogin } from "../../studio/agents/agents.ts";

/**
 * `POST /api/v1/workspaces/{wsId}/ai/agents/{id}/keys`: creates the agent's next key. Only this response contains the
 * key.
 */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const login = requireAgentLogin(context, { request, params });
  const made = await issueAgentKey(context, { ...login, connectionId: params.connectionId });
  return Response.json(made, { status: 201 });
}
