import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callAppFunction } from "../apps/app-database.ts";
import { problem } from "../http/problem.ts";
import { buildDatabaseClaims } from "../session/approval-proof.ts";
import { getUser, requireUser, type User } from "../session/user.ts";
import {
  type AuthorizationError,
  type AuthorizationRequest,
  knownParameters,
  pkceRequired,
  type ResponseTarget,
  readAuthorizationRequest,
  readResponseTarget,
  storedRequestPath,
} from "./authorization-request.ts";
import { type DocumentFault, isDocumentUrl, saveClientDocument } from "./client-document.ts";
import { isStoredRequestUri, readStoredRequest, storeRequest } from "./stored-request.ts";

const authorizationAnswer = z
  .object({
    client: z.object({
      name: z.string(),
      displayName: z.string(),
      enabled: z.boolean(),
      requiresPkce: z.boolean(),
      registration: z.enum(["operator", "document", "dynamic"]),
      isStale: z.boolean(),
    }),
    resource: z.object({ displayName: z.string(), url: z.string() }).nullable(),
    redirectAllowed: z.boolean(),
    scopes: z.array(z.string()),
    consentScopes: z.array(z.string()),
    session: z
      .object({ authTime: z.number().int().nullable(), acr: z.string().nullable(), consented: z.boolean() })
      .nullable(),
  })
  .nullable();

/** A request whose client has registered its redirect URI. */
export interface OpenAuthorization {
  target: ResponseTarget;
  parameters: URLSearchParams;
  /** Where the server keeps the request; null if the request came with its parameters. */
  requestUri: string | null;
  displayName: string;
  /** How the client was registered. Only an operator's clients are known to be what their name says. */
  registration: "operator" | "document" | "dynamic";
  /** The app that the tokens are for; null if they are for the platform. */
  resource: { displayName: string; url: string } | null;
  /** The requested scopes that the client is registered for. */
  scopes: string[];
  /** The scopes that the person has to consent to: also those of the requested claims. */
  consentScopes: string[];
  /** Null if no code could be issued to the session. Its `acr` is null if it is not one that the request accepts. */
  session: { authTime: number | null; acr: string | null; consented: boolean } | null;
  authorizationRequest: AuthorizationRequest | AuthorizationError;
}

/** The reasons to show an error page instead of redirecting to the client. */
export type AuthorizationFault =
  | "unreadable"
  | "ended"
  | "unknown_client"
  | "client_disabled"
  | "redirect_uri"
  | DocumentFault;

/**
 * Reads an authorization request and looks up its client. Checks first that the client has registered the redirect URI,
 * so that nothing is sent to an unknown address.
 * @param options.query the request's parameters, or its client id and the URI under which it is stored (RFC 9126)
 * @throws Response 403 FORBIDDEN for a caller with a bearer token; 503 AUTH_UNAVAILABLE
 */
export async function openAuthorization(
  context: AppLoadContext,
  { request, query }: { request: Request; query: URLSearchParams },
): Promise<OpenAuthorization | { fault: AuthorizationFault; displayName?: string }> {
  const { auth } = context.session;
  if (request.headers.has("authorization")) {
    throw problem("FORBIDDEN", { requestId: context.requestId, detail: "Open this page in a browser." });
  }
  const found = await findParameters(context, query);
  if (!found) return { fault: "ended" };
  const { parameters, requestUri } = found;
  const target = readResponseTarget(parameters);
  if (!target) return { fault: "unreadable" };
  const authorizationRequest = readAuthorizationRequest(parameters);
  const isReadable = !("error" in authorizationRequest);
  const open = () =>
    callAppFunction(context, {
      name: "open_openid_authorization",
      args: {
        client_id: target.clientId,
        redirect_uri: target.redirectUri,
        scopes: isReadable ? authorizationRequest.scopes : [],
        claims: auth.status === "authenticated" ? buildDatabaseClaims(context, auth.claims) : null,
        requested_claims: isReadable
          ? [...authorizationRequest.claims.idToken, ...authorizationRequest.claims.userinfo]
          : [],
        essential_acr: isReadable ? authorizationRequest.claims.essentialAcr : null,
        resource: isReadable ? authorizationRequest.resource : null,
      },
      schema: authorizationAnswer,
    });
  let answer = await open();
  const mayFetch = isReadable && authorizationRequest.resource !== null && isDocumentUrl(target.clientId, context);
  if (mayFetch && (!answer || answer.client.isStale)) {
    const current = await getUser(context);
    // prompt=none may not show the sign-in: its answer to a visitor is login_required.
    if (current || !authorizationRequest.prompt.has("none")) {
      // Requires a sign-in, so that anonymous visitors can’t make us fetch documents.
      const user = current ?? (await requireSignIn(context, { target, parameters, requestUri, request }));
      const fault = await saveClientDocument(context, { url: target.clientId, user });
      if (fault) return { fault };
      answer = await open();
    }
  }
  if (!answer) return { fault: "unknown_client" };
  const { client, redirectAllowed, ...rest } = answer;
  const { displayName, registration } = client;
  if (!redirectAllowed) return { fault: "redirect_uri", displayName };
  if (!client.enabled) return { fault: "client_disabled", displayName };
  const fault = isReadable ? findAuthorizationError(authorizationRequest, answer) : null;
  return {
    target,
    parameters,
    requestUri,
    displayName,
    registration,
    ...rest,
    authorizationRequest: fault ?? authorizationRequest,
  };
}

/** Sends the person to the sign-in page, which leads back to the request. @throws Response the redirect */
async function requireSignIn(
  context: AppLoadContext,
  { request, ...authorization }: Pick<OpenAuthorization, "target" | "parameters" | "requestUri"> & { request: Request },
): Promise<User> {
  const here = new URL(await resumePath(context, { authorization }), context.origin);
  return requireUser(context, new Request(here, { headers: request.headers }));
}

/** Returns the error of a request that this client may not make, or null. */
function findAuthorizationError(
  authorizationRequest: AuthorizationRequest,
  { client, resource }: NonNullable<z.output<typeof authorizationAnswer>>,
): AuthorizationError | null {
  if (client.requiresPkce && authorizationRequest.codeChallenge === null) return pkceRequired;
  if (resource !== null) return null;
  if (authorizationRequest.resource !== null) {
    return { error: "invalid_target", description: "No app is registered with this resource URL" };
  }
  return client.registration === "operator"
    ? null
    : { error: "invalid_target", description: "resource is required: name the URL of the app to call" };
}

/** Returns a request's parameters, or null if the stored request that it names was answered or has expired. */
export async function findParameters(
  context: AppLoadContext,
  query: URLSearchParams,
): Promise<{ parameters: URLSearchParams; requestUri: string | null } | null> {
  const requestUri = query.get("request_uri") ?? "";
  if (!isStoredRequestUri(requestUri)) return { parameters: knownParameters(query), requestUri: null };
  const stored = await readStoredRequest(context, requestUri);
  // RFC 9126 section 4: a request URI belongs to the client that got it. The other parameters don't count.
  return stored?.clientId === query.get("client_id") ? { parameters: stored.parameters, requestUri } : null;
}

/**
 * Returns the path that leads back to a request, and stores the request first if its parameters came with the URL.
 * @throws Response 429 RATE_LIMITED; 503 AUTH_UNAVAILABLE
 */
export async function resumePath(
  context: AppLoadContext,
  {
    authorization,
    resumed = true,
  }: { authorization: Pick<OpenAuthorization, "target" | "parameters" | "requestUri">; resumed?: boolean },
): Promise<string> {
  const { target, parameters, requestUri } = authorization;
  const { clientId } = target;
  const stored = requestUri ?? (await storeRequest(context, { clientId, parameters }));
  return storedRequestPath({ clientId, requestUri: stored }, { resumed });
}
