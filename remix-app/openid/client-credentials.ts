import type { AppLoadContext } from "@remix-run/node";
import { issueServiceToken } from "../machines/service-tokens.ts";
import { refuseClient } from "./client-auth.ts";
import { oauthError } from "./oauth-error.ts";
import { scopesIn } from "./requested-scopes.ts";
import { readServiceClient, type ServiceRequest } from "./service-client.ts";

/**
 * Answers a request with the grant client_credentials (RFC 6749 section 4.4), which only service accounts have. They
 * authenticate with a secret or, as RFC 9700 section 2.5 recommends, with a key (RFC 7523 section 2.2).
 * @throws Response an OAuth error; 503 if the database does not answer
 */
export async function answerClientCredentials(context: AppLoadContext, request: ServiceRequest): Promise<Response> {
  const { clientId, method, credential } = await readServiceClient(context, request);
  if (credential === null) throw await refuseClient(context, { method });
  // RFC 8707: the tokens are for this platform's own API.
  if (request.form.has("resource")) {
    throw oauthError("invalid_target", { description: "Tokens of service accounts are for no other resource" });
  }
  const issued = await issueServiceToken(context, { clientId, credential, scopes: scopesIn(request.form) });
  if (issued.outcome === "invalid_client") throw await refuseClient(context, { method });
  if (issued.outcome === "invalid_scope") {
    throw oauthError("invalid_scope", { description: "The service account does not have these scopes" });
  }
  const body = {
    access_token: issued.token,
    token_type: "Bearer",
    expires_in: issued.expiresInSeconds,
    scope: issued.scopes.join(" "),
  };
  return Response.json(body, { headers: { "Cache-Control": "no-store", Pragma: "no-cache" } });
}
