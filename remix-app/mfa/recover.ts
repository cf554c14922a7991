import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { logWarning } from "#shared/log.ts";
import { guardAttempt } from "../abuse/attempts.ts";
import { recordEvent } from "../activity/record-event.ts";
import { approvalProofKey, buildDatabaseClaims, createApprovalProof } from "../session/approval-proof.ts";
import { writeApprovalCookie } from "../session/cookies.ts";
import type { User } from "../session/user.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { recoveryCodeHash } from "./recovery-codes.ts";
import { removeFactors } from "./remove-factors.ts";

/**
 * The result of a recovery, and what to say about it. `unfinished`: the code is used, but some authenticators remain.
 * The recovery can be continued without another code.
 */
export type RecoveryOutcome =
  | { outcome: "recovered" }
  | { outcome: "refused" | "unfinished"; status: 400 | 403 | 429 | 503; message: string };

/**
 * Uses a recovery code to remove the lost authenticators of the signed-in user, or continues a recovery that failed
 * halfway. This does not sign in: the session stays at AAL1, and the account's MFA requirements still apply.
 *
 * The order ensures that a failure at any point never leaves the account unprotected. First, the database claims the
 * code, blocks the account until the recovery is complete, and ends all other sessions and all apps' sessions. Then,
 * the factors are deleted. When none is left, the recovery is recorded as complete.
 * @param options.code the normalised code; null to continue the recovery that this session started
 */
export async function recoverWithCode(
  context: AppLoadContext,
  { user, code }: { user: User; code: string | null },
): Promise<RecoveryOutcome> {
  const attempt = await guardAttempt(context, { action: "code", userId: user.id });
  if (!attempt.admitted) return { outcome: "refused", status: attempt.status, message: attempt.message };
  const service = createServiceClient(context.env);
  const database = service.schema("private");
  const { data: codeId, error } = await database.rpc("begin_mfa_recovery", {
    subject_id: user.id,
    current_session_id: user.sessionId,
    code_hash: code === null ? null : recoveryCodeHash(code, user.id),
  });
  await attempt.settle(error ? "void" : codeId === null ? "failed" : "succeeded");
  if (error) return { outcome: "refused", status: 503, message: unavailable };
  if (codeId === null) return { outcome: "refused", status: 400, message: wrongCode };
  await recordEvent(context, { userId: user.id, kind: "recovery_code_used", method: "recovery_code" });

  const completed = await removeFactors(service, user.id);
  const { data: done, error: failure } = await database.rpc("end_mfa_recovery", { code_id: codeId, completed });
  if (failure) logWarning(`a recovery stays open: ${failure.code}`, { requestId: context.requestId });
  return done === true ? { outcome: "recovered" } : { outcome: "unfinished", status: 503, message: unfinished };
}

/**
 * Uses a recovery code to sign this session in and keeps the authenticators. The code becomes an approval of this
 * session in this browser, like the one of a phone.
 */
export async function signInWithRecoveryCode(
  context: AppLoadContext,
  { user, claims, code }: { user: User; claims: Claims; code: string },
): Promise<{ outcome: "signed_in" } | Exclude<RecoveryOutcome, { outcome: "recovered" }>> {
  const { env } = context;
  const { id: userId, sessionId } = user;
  const attempt = await guardAttempt(context, { action: "code", userId });
  if (!attempt.admitted) return { outcome: "refused", status: attempt.status, message: attempt.message };
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("sign_in_with_recovery_code", {
      sign_in: {
        claims: { ...buildDatabaseClaims(context, claims), approval_proof: createApprovalProof(env, sessionId) },
        codeHash: recoveryCodeHash(code, userId),
        proofKey: `\\x${Buffer.from(approvalProofKey(env, sessionId)).toString("hex")}`,
      },
    });
  const approval = approvalResult.safeParse(data).data;
  await attempt.settle(error ? "void" : approval ? "succeeded" : "failed");
  if (error) return { outcome: "refused", status: 503, message: maybeUsed };
  if (!approval) return { outcome: "refused", status: 400, message: wrongCode };
  await recordEvent(context, { userId, kind: "recovery_code_sign_in", method: "recovery_code" });
  writeApprovalCookie(context, { sessionId, validUntil: approval.validUntil });
  return { outcome: "signed_in" };
}

const approvalResult = z.object({ validUntil: z.string() });

const wrongCode = "That code is incorrect or was already used. Check it or try another one.";
// If the answer is lost, the code may be in use, but it can be sent again after its lease of 30 seconds.
const unavailable = "We can’t check recovery codes right now. Your code still works. Try again in a minute.";
// If the answer to a sign-in is lost, the code may be used up.
const maybeUsed =
  "We can’t check recovery codes right now. Try again in a minute. If your code is refused then, use another one.";
const unfinished =
  "Your code was accepted, but not all your authenticator apps are removed yet. Try again in a moment.";
