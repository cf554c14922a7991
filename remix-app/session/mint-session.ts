import type { AppLoadContext } from "@remix-run/server-runtime";
import type { SupabaseClient } from "@supabase/supabase-js";
import { z } from "zod";
import { type Claims, claimsOfIssued } from "#shared/claims.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type StoredSession, storedSession } from "./cookies.ts";

/**
 * What became of it. `busy`: another session of the account is being minted. `no_email`, `no_account`: there is nothing
 * to mint with. `refused`: the backend said no, as for a banned account. `unavailable`: somebody did not answer. After
 * each of these surely nothing was minted. `unknown`: the last call was sent and not answered, so a session may be there.
 */
export type Minted =
  | { status: "minted"; session: StoredSession; claims: Claims }
  | { status: "busy" | "no_email" | "no_account" | "refused" | "unavailable" | "unknown" };

/**
 * Mints a session of an account without its credentials: a link of the admin API, redeemed by a client that keeps
 * nothing. For QR handoff and recovery alone, which have proved first that it is due. The session is at AAL1, by `otp`
 * at this moment. It voids the account's pending reset mail, since both are one token.
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
  // Of this type, since for one that an unknown email signs up with the backend would make an account.
  const { data: link, error } = await service.auth.admin.generateLink({ type: "recovery", email });
  if (error) return { status: isAnswer(error.status) ? "refused" : "unavailable" };
  // The address moved to another account in between.
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

/** Whether the backend decided, rather than failed. */
function isAnswer(status: number | undefined): boolean {
  return status !== undefined && status >= 400 && status < 500;
}

export interface MintLease {
  /** The account's own. */
  email: string;
  /** To be called once. A lease that is not given back runs out by itself. It never throws. */
  release(): Promise<void>;
}

const answer = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("taken"), leaseId: z.uuid(), email: z.string() }),
  z.object({ outcome: z.enum(["busy", "no_email", "no_account"]) }),
]);

/**
 * Takes the right to redeem an account's links at the identity backend, which one caller has at a time.
 * @returns the lease, or why there is none
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
