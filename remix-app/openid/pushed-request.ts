import type { AppLoadContext } from "@remix-run/node";
import { callAppFunction } from "../apps/app-database.ts";
import {
  knownParameters,
  pkceRequired,
  readAuthorizationRequest,
  readResponseTarget,
} from "./authorization-request.ts";
import { type ClientRequest, refuseClient } from "./client-auth.ts";
import { oauthError } from "./oauth-error.ts";
import { maxRequestLength, newRequestUri, requestHashOf, storedAnswer } from "./stored-request.ts";

/**
 * Answers `POST /oauth/par` (RFC 9126 section 2): checks a request as the authorization endpoint does, and stores it.
 * @throws Response an OAuth error; 503 if the database does not answer
 */
export async function answerPushedRequest(context: AppLoadContext, { client, form }: ClientRequest): Promise<Response> {
  // Section 2.1.
  if (form.has("request_uri")) throw oauthError("invalid_request", { description: "request_uri must not be pushed" });
  // A client with Basic credentials need not name itself in the form.
  const parameters = knownParameters(new URLSearchParams([...new Map([...form, ["client_id", client.id]])]));
  const target = readResponseTarget(parameters);
  if (!target) throw oauthError("invalid_request", { description: "redirect_uri is required" });
  const authorization = readAuthorizationRequest(parameters);
  if ("error" in authorization) {
    const status = `${parameters}`.length > maxRequestLength ? 413 : 400;
    throw oauthError(authorization.error, { status, description: authorization.description });
  }
  const uri = newRequestUri();
  const answer = await callAppFunction(context, {
    name: "push_authorization_request",
    args: {
      client_id: client.id,
      secret_hash: client.secretHash,
      redirect_uri: target.redirectUri,
      uses_pkce: authorization.codeChallenge !== null,
      parameters: `${parameters}`,
      handle_hash: requestHashOf(uri),
      address: context.clientAddress,
    },
    schema: storedAnswer,
  });
  if (!("refused" in answer)) {
    const body = { request_uri: uri, expires_in: answer.expiresInSeconds };
    return Response.json(body, { status: 201, headers: { "Cache-Control": "no-store", Pragma: "no-cache" } });
  }
  switch (answer.refused) {
    case "redirect_uri":
      throw oauthError("invalid_request", { description: "The redirect_uri is not registered for this client" });
    case "pkce":
      throw oauthError("invalid_request", { description: pkceRequired.description });
    case "limited":
      throw oauthError("temporarily_unavailable", {
        status: 429,
        description: "Too many requests. Wait, then try again",
        headers: { "Retry-After": String(answer.retryAfterSeconds ?? 1) },
      });
    default:
      throw await refuseClient(context, client);
  }
}
