import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { type ChallengeKey, claimsFor, isChallengeId, refusalOf, secretHashOf } from "../session/challenge.ts";
import { callFunction } from "../supabase/data-api.ts";

const outcome = z.enum(["approved", "rejected", "not_found", "forbidden", "mfa_required", "expired", "conflict"]);

export interface Decision {
  key: ChallengeKey;
  approve: boolean;
  /** The phone's session. */
  claims: Claims;
  /** What it says of itself, for the account's owner to read. */
  device?: object;
}

/**
 * A phone's answer to a QR challenge. It counts once.
 * @throws Response 403, 404, 409, 410 as docs/mobile.md has it, 503 UNAVAILABLE
 */
export async function decideChallenge(
  context: AppLoadContext,
  { key, approve, claims, device = {} }: Decision,
): Promise<"approved" | "rejected"> {
  if (!isChallengeId(key.id)) throw refusalOf("not_found", context);
  const decision = {
    id: key.id,
    secretHash: secretHashOf(key.secret),
    claims: claimsFor(claims),
    approve,
    device,
  };
  const call = { name: "private.decide_qr_challenge", args: { decision }, schema: outcome } as const;
  const decided = await callFunction(context, call);
  if (decided === "approved" || decided === "rejected") return decided;
  throw refusalOf(decided, context);
}
