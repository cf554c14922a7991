import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { createAiKey } from "#shared/ai-key.ts";
import { exactUtcText } from "#shared/utc-time.ts";
import { hashToBytea } from "../../apps/opaque-tokens.ts";
import { openidBearerToken } from "../../http/authorization.ts";
import { problem } from "../../http/problem.ts";
import { mailSite } from "../../mail/mail-body.ts";
import { type AppCaller, callAsApp, workspaceIdOrUnknown } from "../../satellites/app-caller.ts";
import { amountText, countOf, formatUsd } from "../../ui/format-amount.ts";
import { agentRequestMail } from "./agent-mail.ts";
import {
  type AgentKey,
  type AgentList,
  agentList,
  type ConnectResult,
  connectResult,
  type NewConnection,
} from "./agent-schema.ts";

/** The caller of a request about agents, and the workspace in its URL. */
export interface AgentRequest {
  caller: AppCaller;
  workspaceId: string;
}

const refusals = {
  revoked: { code: "GONE", detail: "This connection was revoked. Connect the agent again to get a new one." },
  not_allowed: {
    code: "FORBIDDEN",
    detail: "You may no longer connect coding agents in this workspace. Connect the agent again to request access.",
  },
  not_approved: {
    code: "FORBIDDEN",
    detail:
      "This workspace isn’t approved to create API keys. A key manager can request approval on its API keys page.",
  },
  too_many: {
    code: "CONFLICT",
    detail:
      "There are too many active keys. Wait a few minutes, or revoke unused keys on the workspace’s API keys page.",
  },
} as const;
const refusedLimit = z.discriminatedUnion("reason", [
  z.object({
    reason: z.enum(["differs", "used_up"]),
    id: z.uuid(),
    usd: amountText,
    calls: z.number().nullable(),
  }),
  z.object({ reason: z.literal("too_many") }),
]);
type RefusedLimit = z.infer<typeof refusedLimit>;
const connectAnswer = z.union([connectResult, z.object({ state: z.literal("limit_refused"), limit: refusedLimit })]);
const issueAnswer = z.union([
  z.object({ outcome: z.literal("issued"), expiresAt: exactUtcText }),
  z.object({ outcome: z.enum(["revoked", "not_allowed", "not_approved", "too_many"]) }),
]);

/**
 * Returns the OpenID login that authenticates a request. Refuses sessions and app sessions, because agent keys must
 * stop working when a login ends.
 * @throws Response 401 UNAUTHENTICATED without an access token of an OpenID client
 */
export function requireAgentLogin(
  { requestId }: AppLoadContext,
  { request, params }: { request: Request; params: { workspaceId?: string | undefined } },
): AgentRequest {
  const token = openidBearerToken(request.headers.get("authorization"));
  if (token === null) {
    const detail = "Send an access token with the scope studio:keys.";
    throw problem("UNAUTHENTICATED", { requestId, detail, headers: { "WWW-Authenticate": "Bearer" } });
  }
  return {
    caller: { kind: "app", tokenHash: hashToBytea(token) },
    workspaceId: workspaceIdOrUnknown(params.workspaceId),
  };
}

/** Returns the agents that a login has connected in a workspace. @throws Response as callAsApp */
export function listAgents(context: AppLoadContext, { caller, workspaceId }: AgentRequest): Promise<AgentList> {
  return callAsApp(context, { caller, name: "list_agents", args: { workspace_id: workspaceId }, schema: agentList });
}

/**
 * Connects an agent, or requests approval if the member may not connect one. Idempotent.
 * @throws Response 409 CONFLICT if the agent has an open envelope that is used up or has other amounts; otherwise as
 * callAsApp
 */
export async function connectAgent(
  context: AppLoadContext,
  { caller, workspaceId, tool, host, envelope }: AgentRequest & NewConnection,
): Promise<ConnectResult> {
  const site = mailSite(context.env);
  const email = agentRequestMail({ workspaceId, tool, host }, site);
  const args = {
    workspace_id: workspaceId,
    tool,
    host,
    email,
    ...(envelope && { envelope: { usd: envelope.limitUsd, calls: envelope.maxCalls } }),
  };
  const answer = await callAsApp(context, { caller, name: "connect_agent", args, schema: connectAnswer });
  if (answer.state !== "limit_refused") return answer;
  const detail = limitRefusalText(answer.limit, `${site.origin}/workspaces/${workspaceId}/ai/envelopes`);
  throw problem("CONFLICT", { requestId: context.requestId, detail });
}

/** Says why a connection does not get the requested limit. Only people can change or end an open one. */
function limitRefusalText(limit: RefusedLimit, page: string): string {
  if (limit.reason === "too_many") return `This agent has too many open task limits. Stop some of them first: ${page}`;
  const { id, usd, calls, reason } = limit;
  const amounts = `${formatUsd(usd)}${calls === null ? "" : ` and ${countOf(calls, "call")}`}`;
  const state =
    reason === "used_up"
      ? `This agent’s task limit of ${amounts} is used up.`
      : `This agent already has an open task limit, which was set to ${amounts}.`;
  return `${state} Its owner can raise or stop it: ${page}/${id}`;
}

/**
 * Creates the next key of a connection. The previous key works for 15 more minutes.
 * @throws Response 410 GONE once the connection is revoked, 403 FORBIDDEN without permission or approval, 409 CONFLICT;
 * otherwise like callAsApp
 */
export async function issueAgentKey(
  context: AppLoadContext,
  { caller, workspaceId, connectionId }: AgentRequest & { connectionId: string | undefined },
): Promise<AgentKey> {
  const created = await createAiKey();
  const args = {
    workspace_id: workspaceId,
    connection_id: workspaceIdOrUnknown(connectionId),
    lookup: created.lookup,
    secret_hash: Buffer.from(created.hash).toString("hex"),
  };
  const answer = await callAsApp(context, { caller, name: "issue_agent_key", args, schema: issueAnswer });
  if (answer.outcome === "issued") {
    return { secret: created.text, expiresAt: answer.expiresAt, gatewayUrl: context.env.AI_URL };
  }
  const { code, detail } = refusals[answer.outcome];
  throw problem(code, { requestId: context.requestId, detail });
}

/** Revokes a connection and its keys. Idempotent. @throws Response as callAsApp */
export async function disconnectAgent(
  context: AppLoadContext,
  { caller, workspaceId, connectionId }: AgentRequest & { connectionId: string | undefined },
): Promise<void> {
  const args = { workspace_id: workspaceId, connection_id: workspaceIdOrUnknown(connectionId) };
  await callAsApp(context, { caller, name: "disconnect_agent", args, schema: z.strictObject({}) });
}
