import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { problem } from "../../http/problem.ts";
import { buildDatabaseClaims } from "../../session/approval-proof.ts";
import { createRefusalResponse, isChallengeId } from "../../session/challenge.ts";
import type { ApprovalList } from "../../session/challenge-operations.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { pairCodeHash } from "./request-approval.ts";

const isoTimeSchema = z.coerce.date().transform((date) => date.toISOString());
const listResult = z.discriminatedUnion("outcome", [
  z.object({
    outcome: z.literal("listed"),
    approvals: z.array(
      z.object({
        id: z.uuid(),
        createdAt: isoTimeSchema,
        expiresAt: isoTimeSchema,
        metadata: z.object({ device: z.string(), address: z.string() }),
      }),
    ),
  }),
  z.object({ outcome: z.literal("mfa_required") }),
]);
const decideResult = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.enum(["approved", "rejected"]) }),
  z.object({ outcome: z.literal("wrong_code"), attemptsLeft: z.number().int() }),
  z.object({ outcome: z.enum(["not_found", "forbidden", "mfa_required", "expired", "conflict"]) }),
]);

/**
 * Returns the account's open approval requests, newest first. Only a phone at AAL2 may see them.
 * @throws Response 403 MFA_REQUIRED below AAL2, 503 UNAVAILABLE
 */
export async function pendingApprovals(context: AppLoadContext, claims: Claims): Promise<ApprovalList["approvals"]> {
  const args = { claims: buildDatabaseClaims(context, claims) };
  const list = await callFunction(context, { name: "private.pending_mobile_approvals", args, schema: listResult });
  if (list.outcome === "mfa_required") throw createRefusalResponse("mfa_required", context);
  return list.approvals.map(({ metadata, ...approval }) => ({ ...approval, ...metadata }));
}

export interface ApprovalAnswer {
  challengeId: string;
  approve: boolean;
  /** As typed. Required to approve, but not to reject. */
  pairCode: string;
  claims: Claims;
  device: object;
}

/**
 * Records a phone's decision on an approval request. A decision is final. The fifth wrong code locks the request.
 * @throws Response 403 FORBIDDEN with `attemptsLeft` for a wrong code; otherwise 403, 404, 409, 410, 503
 */
export async function answerApproval(
  context: AppLoadContext,
  { challengeId, approve, pairCode, claims, device }: ApprovalAnswer,
): Promise<"approved" | "rejected"> {
  const { env, requestId } = context;
  if (!isChallengeId(challengeId)) throw createRefusalResponse("not_found", context);
  const decision = {
    id: challengeId,
    claims: buildDatabaseClaims(context, claims),
    approve,
    pairCodeHash: pairCodeHash(env, { challengeId, pairCode }),
    device,
  };
  const answer = await callFunction(context, {
    name: "private.decide_mobile_approval",
    args: { decision },
    schema: decideResult,
  });
  const { outcome } = answer;
  if (outcome === "approved" || outcome === "rejected") return outcome;
  if (outcome !== "wrong_code") throw createRefusalResponse(outcome, context);
  const { attemptsLeft } = answer;
  const detail =
    attemptsLeft > 0
      ? "That’s not the code shown on the web page."
      : "That’s not the code shown on the web page. This request is now locked. Send a new one from the web page.";
  throw problem("FORBIDDEN", { requestId, detail, members: { attemptsLeft } });
}
