import type { AppLoadContext } from "@remix-run/node";
import type { Claims } from "#shared/claims.ts";
import type { Env } from "../config/env.server.ts";
import { deriveServerKey, hmac } from "../crypto/derived-key.ts";
import { type ApprovalContext, readApprovalValidity } from "./cookies.ts";

/** Returns the key for the approval proofs of a session. The database stores this key with the approval. */
export function approvalProofKey(env: Pick<Env, "SUPABASE_SECRET_KEY">, sessionId: string): Uint8Array {
  return deriveServerKey(env, `mobile approval proof ${sessionId}`);
}

/**
 * Returns a proof that the browser sent the approval's cookie to our server: "<Unix time in seconds>.<HMAC in hex>".
 * The database accepts a proof for 60 s (`private.is_approval_proven`).
 */
export function createApprovalProof(env: Pick<Env, "SUPABASE_SECRET_KEY">, sessionId: string): string {
  const second = Math.floor(Date.now() / 1000);
  return `${second}.${hmac(approvalProofKey(env, sessionId), `${sessionId} ${second}`).toString("hex")}`;
}

/** Returns a proof of the session's mobile approval, or null if the browser does not hold the approval's cookie. */
export function readApprovalProof(context: ApprovalContext, sessionId: string): string | null {
  return readApprovalValidity(context, sessionId) === "valid" ? createApprovalProof(context.env, sessionId) : null;
}

/**
 * Returns the claims that the database reads from this request's token, with a proof of the session's mobile approval.
 */
export function buildDatabaseClaims({ session }: AppLoadContext, { sub, session_id, aal, amr }: Claims) {
  return { sub, session_id, aal, amr, approval_proof: session.approvalProof() };
}
