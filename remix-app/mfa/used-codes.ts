import { createHmac } from "node:crypto";
import type { AppLoadContext } from "@remix-run/server-runtime";
import { createServiceClient } from "../supabase/data-api.ts";

export interface CodeUse {
  factorId: string;
  code: string;
  /** The session on which the code is tried. */
  sessionId: string;
}

/** How a verification ended, for the claim on its code. `unknown`: the backend did not say. */
export type CodeOutcome = "right" | "wrong" | "unknown";

/**
 * Claims a code for one verification (RFC 6238 §5.2): of any number of callers one gets it.
 * @returns whether it is theirs; null where it could not be asked, so that the code must not be tried
 */
export async function claimCode({ env }: AppLoadContext, use: CodeUse): Promise<boolean | null> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("claim_mfa_code", { code_hash: hashOf(env.SUPABASE_SECRET_KEY, use), session_id: use.sessionId });
  return error || typeof data !== "boolean" ? null : data;
}

/** Gives a claim back where the code was not used up. Where that fails the next code works all the same. */
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
  if (error) console.error(`warning request=${requestId} a code stays claimed: ${error.code}`);
}

/** Names factor and code to the database without telling it the code, of which there are only a million. */
function hashOf(secretKey: string, { factorId, code }: CodeUse): string {
  const key = createHmac("sha256", secretKey).update("used-mfa-codes").digest();
  return createHmac("sha256", key).update(`${factorId} ${code}`).digest("hex");
}
