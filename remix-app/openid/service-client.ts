import type { AppLoadContext } from "@remix-run/node";
import { assertionType, readUnverifiedSubject, verifyAssertion } from "../machines/client-assertion.ts";
import { isServiceClientId, readServiceKeys, type ServiceCredential } from "../machines/service-tokens.ts";
import { identifyClient, type OpenidClient } from "./client-auth.ts";
import { oauthError } from "./oauth-error.ts";

/** A form that a client posted, and its Authorization header. */
export interface ServiceRequest {
  form: ReadonlyMap<string, string>;
  authorization: string | null;
}

/** A client that sent credentials. The credential is null if they are missing or wrong. */
export interface ServiceClient {
  clientId: string;
  method: OpenidClient["method"] | "private_key_jwt";
  credential: ServiceCredential | null;
}

function hasAssertion(form: ServiceRequest["form"]): boolean {
  return form.has("client_assertion") || form.has("client_assertion_type");
}

/**
 * Returns whether a request claims to be from a service account: only these have assertions, and IDs of their form.
 * @throws Response an OAuth error like {@link identifyClient}
 */
export function isServiceRequest(context: AppLoadContext, { form, authorization }: ServiceRequest): boolean {
  return hasAssertion(form) || isServiceClientId(identifyClient(form, { authorization, context }).client.id);
}

/**
 * Returns the service account that a request claims to be from, with its credential: a secret, which the database still
 * has to compare, or a verified assertion, whose `jti` it still has to consume.
 * @throws Response the OAuth error invalid_request for a malformed request, invalid_client for an unusable credential
 */
export async function readServiceClient(context: AppLoadContext, request: ServiceRequest): Promise<ServiceClient> {
  const { form, authorization } = request;
  if (hasAssertion(form)) return readAssertingClient(context, request);
  const { id: clientId, method, secretHash } = identifyClient(form, { authorization, context }).client;
  // RFC 6749 section 4.4: service accounts are confidential clients.
  return { clientId, method, credential: secretHash === null ? null : { secretHash } };
}

/** @throws Response the OAuth error invalid_request for a malformed request, invalid_client for an unknown type */
async function readAssertingClient(
  context: AppLoadContext,
  { form, authorization }: ServiceRequest,
): Promise<ServiceClient> {
  const method = "private_key_jwt";
  const assertion = form.get("client_assertion");
  if (assertion === undefined || form.get("client_assertion_type") !== assertionType) {
    throw oauthError("invalid_request", {
      description: `client_assertion_type must be ${assertionType}, with a client_assertion`,
    });
  }
  // RFC 6749 section 2.3 allows one authentication method per request.
  if (authorization !== null || form.has("client_secret")) {
    throw oauthError("invalid_request", { description: "Authenticate the client once" });
  }
  const clientId = readUnverifiedSubject(assertion);
  // RFC 7521 section 4.2: client_id may be omitted, and otherwise identifies the same client.
  if (clientId === null || (form.get("client_id") ?? clientId) !== clientId) {
    return { clientId: "", method, credential: null };
  }
  const keys = await readServiceKeys(context, clientId);
  const credential = await verifyAssertion(assertion, { clientId, issuer: context.env.BASE_URL, keys });
  return { clientId, method, credential };
}
