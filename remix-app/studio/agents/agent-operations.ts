import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../../http/problem.ts";
import { agentKey, agentList, connectResult, newConnection } from "./agent-schema.ts";

const basePath = "/api/v1/workspaces/{workspaceId}/ai/agents";
const loginFields = { tag: "AI studio", credentials: ["appSession"] } as const;
const commonProblems = ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND"] as const satisfies ProblemCode[];
const scopeNote = "Requires an OpenID access token with the scope studio:keys.";

/** API operations of the `gatehouse` command, which gives coding agents short-lived keys. */
export const agentOperations: readonly Operation<ProblemCode>[] = [
  {
    ...loginFields,
    id: "listAgents",
    method: "GET",
    path: basePath,
    summary: "List connected coding agents",
    description: `${scopeNote} Lists the agents of that login.`,
    answers: [{ status: 200, description: "The agents, and whether the member may connect more.", schema: agentList }],
    problems: [...commonProblems],
  },
  {
    ...loginFields,
    id: "connectAgent",
    method: "POST",
    path: basePath,
    summary: "Connect a coding agent",
    description: `${scopeNote} A member without the manage_ai_keys permission requests access instead, which a member with it approves on the API keys page. With an envelope, all calls of the agent share a limit. A repeated call keeps an open envelope with the same amounts. 409 if the open one has other amounts or is used up: only its owner can raise or end it, in a browser.`,
    body: { schema: newConnection, example: { tool: "claude", host: "ann-laptop", envelope: { limitUsd: 5 } } },
    answers: [{ status: 200, description: "The connection, or that access is requested.", schema: connectResult }],
    problems: ["INVALID_REQUEST", "CONFLICT", ...commonProblems],
  },
  {
    ...loginFields,
    id: "createAgentKey",
    method: "POST",
    path: `${basePath}/{connectionId}/keys`,
    summary: "Create a coding agent’s next key",
    description: `${scopeNote} The key expires after 8 hours, or with the login. The previous key works for 15 more minutes. The secret is only in this response.`,
    answers: [{ status: 201, description: "The key.", schema: agentKey }],
    problems: ["GONE", "CONFLICT", ...commonProblems],
  },
  {
    ...loginFields,
    id: "disconnectAgent",
    method: "DELETE",
    path: `${basePath}/{connectionId}`,
    summary: "Disconnect a coding agent",
    description: `${scopeNote} Revokes the agent’s keys. Idempotent.`,
    answers: [{ status: 204, description: "The agent is disconnected." }],
    problems: [...commonProblems],
  },
];
