import { createHmac, randomInt } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import type { Env } from "../../config/env.server.ts";
import { deriveServerKey } from "../../crypto/derived-key.ts";
import { problem } from "../../http/problem.ts";
import { beginChallenge, type NewChallenge } from "../../session/challenge.ts";
import type { User } from "../../session/user.ts";

/** A request for approval, with the code that only its page shows. */
export interface ApprovalRequest extends NewChallenge {
  pairCode: string;
}

/**
 * Returns the HMAC of a pairing code under a key that the database does not have, because six digits are quickly
 * guessed. The format is what the Data API takes for a bytea.
 */
export function pairCodeHash(
  env: Pick<Env, "SUPABASE_SECRET_KEY">,
  { challengeId, pairCode }: { challengeId: string; pairCode: string },
): string {
  const hmac = createHmac("sha256", deriveServerKey(env, "mobile approval pair code"));
  return `\\x${hmac.update(`${challengeId.toLowerCase()} ${pairCode}`).digest("hex")}`;
}

/**
 * Asks an account's phones to approve a browser whose second factor is due.
 * @throws Response 409 CONFLICT if there is nothing to approve, 429, 503
 */
export async function requestApproval(context: AppLoadContext, user: User): Promise<ApprovalRequest> {
  const { env, requestId } = context;
  const { satisfied, enrolled, policy } = user.mfa;
  if (satisfied || !enrolled || policy === "recovery_in_progress") {
    const detail = satisfied
      ? "This session has already completed the second step."
      : "This account has no authenticator app, so there is no second step to approve.";
    throw problem("CONFLICT", { requestId, detail });
  }
  const pairCode = String(randomInt(1_000_000)).padStart(6, "0");
  const challenge = await beginChallenge(context, {
    kind: "mfa_mobile",
    user,
    pairCodeHash: (challengeId) => pairCodeHash(env, { challengeId, pairCode }),
  });
  return { ...challenge, pairCode };
}
