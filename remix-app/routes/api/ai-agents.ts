import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/server-runtime";
import { readJson } from "../../http/json-body.ts";
import { newConnection } from "../../studio/agents/agent-schema.ts";
import { connectAgent, listAgents, requireAgentLogin } from "../../studio/agents/agents.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/agents`: the coding agents of the login. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  return Response.json(await listAgents(context, requireAgentLogin(context, { request, params })));
}

/** `POST` of the same: connects one, or requests it. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const asked = requireAgentLogin(context, { request, params });
  const wanted = await readJson(request, { schema: newConnection, requestId: context.requestId });
  return Response.json(await connectAgent(context, { ...asked, ...wanted }));
}
