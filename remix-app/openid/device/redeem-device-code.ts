import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../../apps/app-database.ts";
import { hashToBytea } from "../../apps/opaque-tokens.ts";
import { type OpenidClient, refuseClient } from "../client-auth.ts";
import { oauthError } from "../oauth-error.ts";
import { openSigner } from "../signing-keys.ts";
import { hashesOf, issuedTokens, newTokenPair, tokenResponse } from "../token-response.ts";

const refusalSchema = createRefusalSchema(
  ...(["authorization_pending", "slow_down", "access_denied", "expired_token"] as const),
  ...(["token", "unauthenticated", "unauthorized_client", "unavailable"] as const),
);

/** RFC 8628 section 3.5. */
const descriptions = {
  authorization_pending: "The person has not answered yet",
  slow_down: "Poll 5 seconds less often from now on",
  access_denied: "The request was denied, or the approval no longer holds",
  expired_token: "The device code has expired. Start again",
  unauthorized_client: "This client is not registered for the device grant",
} as const;

/**
 * Answers a device's poll at the token endpoint, and redeems an approved device code once (RFC 8628 section 3.4).
 * @throws Response an OAuth error; 503 if the database does not answer
 */
export async function redeemDeviceCode(
  context: AppLoadContext,
  { client, deviceCode }: { client: OpenidClient; deviceCode: string },
): Promise<Response> {
  const pair = newTokenPair();
  const sign = await openSigner(context);
  const answer = await callAppFunction(context, {
    name: "redeem_device_code",
    args: {
      client_id: client.id,
      secret_hash: client.secretHash,
      device_code_hash: hashToBytea(deviceCode),
      ...hashesOf(pair),
    },
    schema: z.union([refusalSchema, issuedTokens]),
  });
  if (!("refused" in answer)) return tokenResponse(context, { issued: answer, pair, sign });
  switch (answer.refused) {
    case "unauthenticated":
      throw await refuseClient(context, client);
    case "unavailable":
      throw appsUnavailable(context);
    case "token":
      throw oauthError("invalid_grant", { description: "The device code is invalid or was used" });
    default:
      throw oauthError(answer.refused, { description: descriptions[answer.refused] });
  }
}
