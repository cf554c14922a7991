import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { appsUnavailable, callAppFunction } from "../../apps/app-database.ts";
import { hashToBytea, newOpaqueToken } from "../../apps/opaque-tokens.ts";
import { type ClientRequest, refuseClient } from "../client-auth.ts";
import { oauthError } from "../oauth-error.ts";
import { formatUserCode, newUserCode } from "./user-code.ts";

/** Number of codes to propose. The database takes the first that is not in use. */
const candidateCount = 4;

const refusalSchema = z.object({
  refused: z.enum(["unauthenticated", "unauthorized_client", "scope", "limited", "unavailable"]),
  retryAfterSeconds: z.number().int().optional(),
});
const deviceAuthorization = z.object({
  userCode: z.string(),
  expiresInSeconds: z.number().int(),
  intervalSeconds: z.number().int(),
});

/**
 * Answers `POST /oauth/device_authorization` (RFC 8628 section 3.2). Stores where the request came from, for the person
 * who approves it.
 * @throws Response an OAuth error; 503 if the database does not answer
 */
export async function beginDeviceAuthorization(
  context: AppLoadContext,
  { client, form }: ClientRequest,
): Promise<Response> {
  const { env, clientAddress, userAgent, place } = context;
  const deviceCode = newOpaqueToken("ghd_");
  const answer = await callAppFunction(context, {
    name: "begin_device_authorization",
    args: {
      client_id: client.id,
      secret_hash: client.secretHash,
      device_code_hash: hashToBytea(deviceCode),
      user_codes: Array.from({ length: candidateCount }, newUserCode),
      scopes: (form.get("scope") ?? "").split(" ").filter(Boolean),
      address: clientAddress,
      user_agent: userAgent,
      place,
    },
    schema: z.union([refusalSchema, deviceAuthorization]),
  });
  if ("refused" in answer) {
    if (answer.refused === "unauthenticated") throw await refuseClient(context, client);
    if (answer.refused === "unavailable") throw appsUnavailable(context);
    throw refusalResponse(answer);
  }
  const code = formatUserCode(answer.userCode);
  const page = `${env.BASE_URL}/device`;
  const body = {
    device_code: deviceCode,
    user_code: code,
    verification_uri: page,
    verification_uri_complete: `${page}?${new URLSearchParams({ user_code: code })}`,
    expires_in: answer.expiresInSeconds,
    interval: answer.intervalSeconds,
  };
  return Response.json(body, { headers: { "Cache-Control": "no-store", Pragma: "no-cache" } });
}

function refusalResponse({ refused: reason, retryAfterSeconds = 1 }: z.output<typeof refusalSchema>): Response {
  switch (reason) {
    case "scope":
      return oauthError("invalid_scope", { description: "Send a scope that this client is registered for" });
    case "limited":
      return oauthError("temporarily_unavailable", {
        status: 429,
        description: "Too many requests from this address. Wait, then try again",
        headers: { "Retry-After": String(retryAfterSeconds) },
      });
    default:
      return oauthError("unauthorized_client", { description: "This client is not registered for the device grant" });
  }
}
