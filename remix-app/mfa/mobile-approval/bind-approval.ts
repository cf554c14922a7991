import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { approvalProofKey, buildDatabaseClaims, createApprovalProof } from "../../session/approval-proof.ts";
import { type ChallengeKey, type ChallengeProgress, requireChallenge, secretHashOf } from "../../session/challenge.ts";
import { writeApprovalCookie } from "../../session/cookies.ts";
import { callFunction } from "../../supabase/data-api.ts";

const isoTimeSchema = z.coerce.date().transform((date) => date.toISOString());
const bindResult = z.object({ status: z.enum(["bound", "rejected"]), validUntil: isoTimeSchema.nullable() }).nullable();

/**
 * Returns the status of an approval request to the session that made it. Binds an approved request to that session
 * once, and sets the approval cookie. If the response is lost, the session can call this again until the request
 * expires.
 * @throws Response 404 for a wrong id or secret, 403 for another session, 503
 */
export async function bindApproval(
  context: AppLoadContext,
  { key, claims }: { key: ChallengeKey; claims: Claims },
): Promise<Pick<ChallengeProgress, "status" | "validUntil">> {
  const { env } = context;
  const sessionId = claims.session_id;
  const request = { kind: "mfa_mobile", key, sessionId } as const;
  let progress = await requireChallenge(context, request);
  if (progress.status === "approved") {
    const binding = {
      id: key.id,
      secretHash: secretHashOf(key.secret),
      claims: { ...buildDatabaseClaims(context, claims), approval_proof: createApprovalProof(env, sessionId) },
      proofKey: `\\x${Buffer.from(approvalProofKey(env, sessionId)).toString("hex")}`,
    };
    const args = { binding };
    const bound = await callFunction(context, { name: "private.bind_mobile_approval", args, schema: bindResult });
    progress = bound ? { ...progress, ...bound } : await requireChallenge(context, request);
  }
  const { status, validUntil, expiresAt } = progress;
  if (status === "bound" && validUntil && Date.parse(expiresAt) > Date.now()) {
    writeApprovalCookie(context, { sessionId, validUntil });
  }
  return { status, validUntil };
}
