import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { newConnection, parseConnection } from "../../studio/agents/agent-schema.ts";
import { connectAgent, listAgents, requireAgentLogin } from "../../studio/agents/agents.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";

/** `GET /api/v1/workspaces/{wsId}/ai/agents`: lists the coding agents that this login connected. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const list = await listAgents(context, requireAgentLogin(context, { request, params }));
  return Response.json(convertAmountsToJsonNumbers(list));
}

/** `POST` on the same URL: connects a coding agent, or requests approval if the member may not connect one. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const login = requireAgentLogin(context, { request, params });
  const { requestId } = context;
  const wanted = await readJson(request, { schema: newConnection, requestId, parse: parseConnection });
  return Response.json(convertAmountsToJsonNumbers(await connectAgent(context, { ...login, ...wanted })));
}
