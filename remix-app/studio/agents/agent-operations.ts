import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../../http/problem.ts";
import { agentKey, agentList, connected, newConnection } from "./agent-schema.ts";

const base = "/api/v1/workspaces/{workspaceId}/ai/agents";
const login = { tag: "AI studio", credentials: ["appSession"] } as const;
const common = ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND"] as const satisfies ProblemCode[];
const scope = "Requires an OpenID access token with the scope studio:keys.";

/** API operations of the `gatehouse` command, which gives coding agents short-lived keys. */
export const agentOperations: readonly Operation<ProblemCode>[] = [
  {
    ...login,
    id: "listAgents",
    method: "GET",
    path: base,
    summary: "List connected coding agents",
    description: `${scope} Lists the agents of that login.`,
    answers: [{ status: 200, description: "The agents, and whether the member may connect more.", schema: agentList }],
    problems: [...common],
  },
  {
    ...login,
    id: "connectAgent",
    method: "POST",
    path: base,
    summary: "Connect a coding agent",
    description: `${scope} A member without the manage_ai_keys permission requests access instead, which a member with it approves on the API keys page.`,
    body: { schema: newConnection, example: { tool: "claude", host: "ann-laptop" } },
    answers: [{ status: 200, description: "The connection, or that access is requested.", schema: connected }],
    problems: ["INVALID_REQUEST", ...common],
  },
  {
    ...login,
    id: "createAgentKey",
    method: "POST",
    path: `${base}/{connectionId}/keys`,
    summary: "Create a coding agent’s next key",
    description: `${scope} The key expires after 8 hours, or with the login. The previous key works for 15 more minutes. The secret is only in this response.`,
    answers: [{ status: 201, description: "The key.", schema: agentKey }],
    problems: ["GONE", "CONFLICT", ...common],
  },
  {
    ...login,
    id: "disconnectAgent",
    method: "DELETE",
    path: `${base}/{connectionId}`,
    summary: "Disconnect a coding agent",
    description: `${scope} Revokes the agent’s keys. Idempotent.`,
    answers: [{ status: 204, description: "The agent is disconnected." }],
    problems: [...common],
  },
];
