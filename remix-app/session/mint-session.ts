import type { AppLoadContext } from "@remix-run/server-runtime";
import type { SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";
import { type Claims, claimsOfIssued } from "#shared/claims.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type StoredSession, storedSession } from "./cookies.ts";

/**
 * The outcome of minting. `busy` means that another session of the account is being minted. `no_email` means that the
 * account has no email. `no_account` means that the account does not exist. `refused` means that the backend refused,
 * for example for a banned account. `unavailable` means that a backend did not answer. After these outcomes, no session
 * was minted. `unknown` means that the last call was sent and not answered, so a session may exist.
 */
export type Minted =
  | { status: "minted"; session: StoredSession; claims: Claims }
  | { status: "busy" | "no_email" | "no_account" | "refused" | "unavailable" | "unknown" };

/**
 * Mints a session of an account without its credentials: requests a link from the admin API and redeems it with a
 * client that stores nothing. Only for QR handoff and recovery, which have verified the request first. The session is
 * at AAL1, with the method `otp` at the current time. Invalidates the account's pending reset email, because both use
 * one token.
 */
export async function mintSession(context: AppLoadContext, { userId }: { userId: string }): Promise<Minted> {
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
): Promise<Minted> {
  // A recovery link, because with a sign-up link the backend would create an account for an unknown email.
  const { data: link, error } = await service.auth.admin.generateLink({ type: "recovery", email });
  if (error) return { status: isAnswer(error.status) ? "refused" : "unavailable" };
  // The email has moved to another account in the meantime.
  if (link.user.id !== userId) return { status: "refused" };
  const { data, error: unverified } = await session
    .mailClient()
    .auth.verifyOtp({ token_hash: link.properties.hashed_token, type: "recovery" });
  if (unverified) return { status: isAnswer(unverified.status) ? "refused" : "unknown" };
  if (!data.session) return { status: "unknown" };
  const { access_token, refresh_token, expires_in, expires_at } = data.session;
  const claims = claimsOfIssued(access_token);
  if (claims.sub !== userId) return { status: "refused" };
  return {
    status: "minted",
    session: storedSession.parse({ access_token, refresh_token, expires_in, expires_at, token_type: "bearer" }),
    claims,
  };
}

/** Returns whether the status means that the backend rejected the call (4xx). Any other error status is a failure. */
function isAnswer(status: number | undefined): boolean {
  return status !== undefined && status >= 400 && status < 500;
}

export interface MintLease {
  email: string;
  /** Releases the lease. Call it once. An unreleased lease expires by itself. Never throws. */
  release(): Promise<void>;
}

const answer = z.discriminatedUnion("outcome", [
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
  const taken = answer.safeParse(data);
  if (error || !taken.success) return "unavailable";
  if (taken.data.outcome !== "taken") return taken.data.outcome;
  const { leaseId, email } = taken.data;
  return {
    email,
    async release() {
      const { error: kept } = await database.rpc("release_mint_lease", { lease_id: leaseId });
      if (kept) console.error(`warning request=${requestId} a mint lease runs out by itself: ${kept.code}`);
    },
  };
}
