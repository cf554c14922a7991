import { createHmac } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { logWarning } from "#shared/log.ts";
import { createServiceClient } from "../supabase/data-api.ts";

export interface CodeUse {
  factorId: string;
  code: string;
  sessionId: string;
}

/** The result of verifying a claimed code. `unknown`: the backend did not answer. */
export type CodeOutcome = "right" | "wrong" | "unknown";

/**
 * Claims a code for a single verification (RFC 6238 §5.2). If several callers claim the same code, only one succeeds.
 * @returns whether this caller succeeded; null if the database did not answer, in which case the code must not be tried
 */
export async function claimCode({ env }: AppLoadContext, use: CodeUse): Promise<boolean | null> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("claim_mfa_code", { code_hash: hashOf(env.SUPABASE_SECRET_KEY, use), session_id: use.sessionId });
  return error || typeof data !== "boolean" ? null : data;
}

/** Releases a claim if the code was not used up. If the release fails, the authenticator's next code still works. */
export async function releaseCode(
  { env, requestId }: AppLoadContext,
  { outcome, ...use }: CodeUse & { outcome: CodeOutcome },
): Promise<void> {
  if (outcome === "right") return;
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("release_mfa_code", {
      code_hash: hashOf(env.SUPABASE_SECRET_KEY, use),
      session_id: use.sessionId,
      verified: outcome === "wrong" ? false : null,
    });
  if (error) logWarning(`a code stays claimed: ${error.code}`, { requestId });
}

/**
 * Returns a keyed hash that identifies the factor and code to the database. An unkeyed hash would reveal the code,
 * because a million guesses cover all codes.
 */
function hashOf(secretKey: string, { factorId, code }: CodeUse): string {
  const key = createHmac("sha256", secretKey).update("used-mfa-codes").digest();
  return createHmac("sha256", key).update(`${factorId} ${code}`).digest("hex");
}
