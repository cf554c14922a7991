import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { createServiceClient } from "../supabase/data-api.ts";

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
