import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { exactUtcText } from "#shared/utc-time.ts";
import { problem } from "../../http/problem.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { agentTool } from "./agent-schema.ts";

const accessOfMember = z.object({
  userId: z.uuid(),
  name: z.string(),
  state: z.enum(["open", "approved"]),
  tool: agentTool,
  host: z.string(),
  /** When the member made the request. The answer form sends this time and the member's id to identify the request. */
  requestedAt: exactUtcText,
  answeredAt: exactUtcText.nullable(),
});
/** A member whose request to connect coding agents is open or approved. */
export type AgentAccess = z.infer<typeof accessOfMember>;

const notAllowed = z.object({ outcome: z.literal("not_allowed") });
export const listedAgents = z.union([
  z.object({ outcome: z.literal("listed"), members: z.array(accessOfMember) }),
  notAllowed,
]);
const answerSchema = z.union([z.object({ outcome: z.enum(["done", "answered"]) }), notAllowed]);

/** The form that answers a request or withdraws an approval. */
export const agentAnswerSchema = z.object({
  userId: z.uuid(),
  requestedAt: exactUtcText,
  answer: z.enum(["approve", "decline", "withdraw"]),
});
export type AgentAnswer = z.infer<typeof agentAnswerSchema>;

/**
 * Returns the members with an open or approved request to connect coding agents, open requests first.
 * @throws Response 403, 503
 */
export async function listAgentAccess(context: AppLoadContext, member: StudioMember): Promise<AgentAccess[]> {
  return agentsOf(context, await callAsMember(context, { member, name: "list_agent_access", schema: listedAgents }));
}

/** Returns the members in an answer. @throws Response 403 FORBIDDEN */
export function agentsOf(context: AppLoadContext, answer: z.output<typeof listedAgents>): AgentAccess[] {
  if (answer.outcome === "listed") return answer.members;
  throw createForbiddenResponse(context);
}

/**
 * Approves or declines a member's request to connect coding agents, or withdraws an approval. Withdrawing an approval
 * ends the keys of the member's agents.
 * @returns whether this answer took effect; another manager may have answered first
 * @throws Response 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function answerAgentAccess(
  context: AppLoadContext,
  { member, userId, requestedAt, answer }: AgentAnswer & { member: StudioMember },
): Promise<boolean> {
  const args = { requester_id: userId, requested_at: requestedAt, answer };
  const { outcome } = await callAsMember(context, { member, name: "answer_agent_access", args, schema: answerSchema });
  if (outcome === "not_allowed") throw createForbiddenResponse(context);
  return outcome === "done";
}

function createForbiddenResponse({ requestId }: AppLoadContext): Response {
  const detail = "Your role in this workspace doesn’t allow you to manage API keys.";
  return problem("FORBIDDEN", { requestId, detail });
}
