import { randomBytes, randomUUID } from "node:crypto";
import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { deviceName } from "../activity/device-name.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { type ChallengeKind, secretHashOf, unanswered } from "./challenge.ts";
import type { User } from "./user.ts";

/** A challenge that was begun, as its browser gets to know it, once. */
export interface BegunChallenge {
  id: string;
  secret: string;
  /** RFC 3339. */
  expiresAt: string;
}

const secretBytes = 32;
const answer = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("begun"), expiresAt: z.coerce.date() }),
  z.object({ outcome: z.literal("limited"), retryAfterSeconds: z.number().int().positive() }),
]);

/**
 * Begins a challenge for the session of this request. What it waited for before, of the same kind, expires.
 * @param options.pairCodeHash makes the hash of the code that a phone has to enter, for the challenge's id
 * @throws Response 429 RATE_LIMITED after 20 of a kind in 15 minutes, 503 UNAVAILABLE where it cannot be kept
 */
export async function beginChallenge(
  context: AppLoadContext,
  { kind, user, pairCodeHash }: { kind: ChallengeKind; user: User; pairCodeHash?: (id: string) => string },
): Promise<BegunChallenge> {
  const { env, requestId, clientAddress, userAgent } = context;
  const id = randomUUID();
  const secret = randomBytes(secretBytes).toString("base64url");
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("begin_login_challenge", {
      challenge: {
        id,
        kind,
        userId: user.id,
        sessionId: user.sessionId,
        secretHash: secretHashOf(secret),
        pairCodeHash: pairCodeHash?.(id),
        metadata: { device: deviceName(userAgent), address: clientAddress },
      },
    });
  const begun = answer.safeParse(data);
  if (error || !begun.success) throw unanswered(context, { asked: "begin_login_challenge", error });
  if (begun.data.outcome === "limited") {
    const detail = "You asked for too many codes. Wait a few minutes, then ask again.";
    throw problem("RATE_LIMITED", {
      requestId,
      detail,
      headers: { "Retry-After": String(begun.data.retryAfterSeconds) },
    });
  }
  return { id, secret, expiresAt: begun.data.expiresAt.toISOString() };
}
