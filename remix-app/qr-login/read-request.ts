import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { Claims } from "#shared/claims.ts";
import { type ChallengeKey, createRefusalResponse, isChallengeId, secretHashOf } from "../session/challenge.ts";
import { type HandoffRequest, qrHandoffStatusSchema } from "../session/challenge-operations.ts";
import { callFunction } from "../supabase/data-api.ts";

const isoTimeSchema = z.coerce.date().transform((date) => date.toISOString());
const answer = z.discriminatedUnion("outcome", [
  z.object({
    outcome: z.literal("known"),
    id: z.uuid(),
    status: qrHandoffStatusSchema.shape.status,
    createdAt: isoTimeSchema,
    expiresAt: isoTimeSchema,
    metadata: z.object({ device: z.string(), address: z.string() }),
  }),
  z.object({ outcome: z.enum(["not_found", "forbidden"]) }),
]);

/**
 * Returns a QR request for a phone to show before it answers. Changes nothing.
 * @param options.claims of the phone's session
 * @throws Response 404 if the id or secret is wrong, 403 FORBIDDEN if another account or this very session created it,
 * 503
 */
export async function readHandoffRequest(
  context: AppLoadContext,
  { key, claims }: { key: ChallengeKey; claims: Claims },
): Promise<HandoffRequest> {
  if (!isChallengeId(key.id)) throw createRefusalResponse("not_found", context);
  const { sub: userId, session_id: sessionId } = claims;
  const read = await callFunction(context, {
    name: "private.read_qr_request",
    args: { request: { id: key.id, secretHash: secretHashOf(key.secret), userId, sessionId } },
    schema: answer,
  });
  if (read.outcome !== "known") throw createRefusalResponse(read.outcome, context);
  const { outcome: _, metadata, ...request } = read;
  return { ...request, ...metadata };
}
