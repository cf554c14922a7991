import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import {
  type ChallengeKey,
  claimsFor,
  isChallengeId,
  refusalOf,
  secretHashOf,
  unanswered,
} from "../session/challenge.ts";
import { createServiceClient } from "../supabase/data-api.ts";

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
  const { env } = context;
  if (!isChallengeId(key.id)) throw refusalOf("not_found", context);
  const decision = {
    id: key.id,
    secretHash: secretHashOf(key.secret),
    claims: claimsFor(claims),
    approve,
    device,
  };
  const { data, error } = await createServiceClient(env).schema("private").rpc("decide_qr_challenge", { decision });
  const decided = outcome.safeParse(data);
  if (error || !decided.success) throw unanswered(context, { asked: "decide_qr_challenge", error });
  if (decided.data === "approved" || decided.data === "rejected") return decided.data;
  throw refusalOf(decided.data, context);
}
