import type { AppLoadContext } from "@remix-run/node";
import type { SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";
import { type Claims, decodeIssuedClaims } from "#shared/claims.ts";
import { logWarning } from "#shared/log.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type StoredSession, storedSession } from "./cookies.ts";

/**
 * The outcome of minting. `busy` means that another session of the account is being minted. `no_email` means that the
 * account has no email. `no_account` means that the account does not exist. `refused` means that the backend refused,
 * for example for a banned account. `unavailable` means that a backend did not answer. After these outcomes, no session
 * was minted. `unknown` means that the last call was sent and not answered, so a session may exist.
 */
export type MintResult =
  | { status: "minted"; session: StoredSession; claims: Claims }
  | { status: "busy" | "no_email" | "no_account" | "refused" | "unavailable" | "unknown" };

/**
 * Mints a session of an account without its credentials: requests a link from the admin API and redeems it with a
 * client that stores nothing. Only for QR handoff and recovery, which have verified the request first. The session is
 * at AAL1, with the method `otp` at the current time. Invalidates the account's pending reset email, because both use
 * one token.
 */
export async function mintSession(context: AppLoadContext, { userId }: { userId: string }): Promise<MintResult> {
  const lease = await takeMintLease(context, userId);
  if (typeof lease === "string") return { status: lease };
  try {
    return await generateAndVerify(context, { service: createServiceClient(context.env), userId, email: lease.email });
  } finally {
    await lease.release();
  }
}

async function generateAndVerify(
  { session }: AppLoadContext,
  { service, userId, email }: { service: SupabaseClient; userId: string; email: string },
): Promise<MintResult> {
  // A recovery link, because with a sign-up link the backend would create an account for an unknown email.
  const { data: link, error } = await service.auth.admin.generateLink({ type: "recovery", email });
  if (error) return { status: isRejection(error.status) ? "refused" : "unavailable" };
  // The email has moved to another account in the meantime.
  if (link.user.id !== userId) return { status: "refused" };
  const { data, error: refusal } = await session
    .anonymousClient()
    .auth.verifyOtp({ token_hash: link.properties.hashed_token, type: "recovery" });
  if (refusal) return { status: isRejection(refusal.status) ? "refused" : "unknown" };
  if (!data.session) return { status: "unknown" };
  const claims = decodeIssuedClaims(data.session.access_token);
  if (claims.sub !== userId) return { status: "refused" };
  return { status: "minted", session: storedSession.parse(data.session), claims };
}

/** Returns whether the status means that the backend rejected the call (4xx). Any other error status is a failure. */
function isRejection(status: number | undefined): boolean {
  return status !== undefined && status >= 400 && status < 500;
}

export interface MintLease {
  email: string;
  /** Releases the lease. Call it once. An unreleased lease expires by itself. Never throws. */
  release(): Promise<void>;
}

const leaseResult = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("taken"), leaseId: z.uuid(), email: z.string() }),
  z.object({ outcome: z.enum(["busy", "no_email", "no_account"]) }),
]);

/**
 * Acquires the exclusive right to redeem an account's links at the identity backend.
 * @returns the lease, or why it could not be acquired
 */
export async function takeMintLease(
  { env, requestId }: AppLoadContext,
  userId: string,
): Promise<MintLease | "busy" | "no_email" | "no_account" | "unavailable"> {
  const database = createServiceClient(env).schema("private");
  const { data, error } = await database.rpc("take_mint_lease", { subject_id: userId });
  const result = leaseResult.safeParse(data);
  if (error || !result.success) return "unavailable";
  if (result.data.outcome !== "taken") return result.data.outcome;
  const { leaseId, email } = result.data;
  return {
    email,
    async release() {
      const { error: failure } = await database.rpc("release_mint_lease", { lease_id: leaseId });
      if (failure) logWarning(`a mint lease runs out by itself: ${failure.code}`, { requestId });
    },
  };
}
