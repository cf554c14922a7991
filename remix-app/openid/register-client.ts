import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { countAttempt } from "../apps/app-client.ts";
import { callAppFunction } from "../apps/app-database.ts";
import { readJson } from "../http/json-body.ts";
import { ClientMetadataError, newClientName, readClientMetadata } from "./client-metadata.ts";
import { oauthError } from "./oauth-error.ts";

/**
 * Answers `POST /oauth/register` (RFC 7591), if the operator allows it. Every client is public: it gets no secret, also
 * if it asks for one (section 3.2.1).
 * @throws Response an OAuth error; 404 if registration is not allowed; 503 if the database does not answer
 */
export async function registerClient(context: AppLoadContext, request: Request): Promise<Response> {
  if (!context.env.OAUTH_CLIENT_REGISTRATION) {
    throw oauthError("invalid_request", { status: 404, description: "Clients can't register themselves here" });
  }
  const attempt = await countAttempt(context, { action: "client_registration" });
  if (!attempt.allowed) {
    throw oauthError("temporarily_unavailable", {
      status: 429,
      description: "Too many clients have registered. Try again later",
      headers: { "Retry-After": String(attempt.retryAfterSeconds) },
    });
  }
  const { displayName, redirectUris } = await readRegistration(context, request);
  const name = newClientName();
  await callAppFunction(context, {
    name: "save_self_registered_client",
    args: { client: { name, displayName, redirectUris, metadataUrl: null } },
    schema: z.null(),
  });
  const body = {
    client_id: name,
    client_id_issued_at: Math.floor(Date.now() / 1_000),
    client_name: displayName,
    redirect_uris: redirectUris,
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  return Response.json(body, { status: 201, headers: { "Cache-Control": "no-store", Pragma: "no-cache" } });
}

async function readRegistration(context: AppLoadContext, request: Request) {
  const { requestId } = context;
  const value = await readJson(request, { schema: z.looseObject({}), requestId }).catch((thrown: unknown) => {
    if (!(thrown instanceof Response) || thrown.status !== 400) throw thrown;
    throw oauthError("invalid_client_metadata", { description: "The body must be JSON" });
  });
  try {
    return readClientMetadata(value, { platform: context.env.BRAND_NAME });
  } catch (error) {
    if (!(error instanceof ClientMetadataError)) throw error;
    throw oauthError(error.code, { description: error.message });
  }
}
