import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callAppFunction } from "../apps/app-database.ts";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import { problem } from "../http/problem.ts";

/** The form of request URIs in RFC 9126 section 2.2. The rest is a handle with 256 random bits. */
const prefix = "urn:ietf:params:oauth:request_uri:";
const handlePrefix = "ghq_";

/** The maximum length of a request's parameters in form encoding. */
export const maxRequestLength = 8_192;

/** A request that the server keeps for ten minutes, until it is answered. */
export interface StoredRequest {
  clientId: string;
  parameters: URLSearchParams;
}

/** The answer of the database functions that store a request. */
export const storedAnswer = z.union([
  z.object({
    refused: z.enum(["client", "unauthenticated", "redirect_uri", "pkce", "limited"]),
    retryAfterSeconds: z.number().int().optional(),
  }),
  z.object({ expiresInSeconds: z.number().int() }),
]);

/** Returns a new request URI. */
export function newRequestUri(): string {
  return prefix + newOpaqueToken(handlePrefix);
}

/** Returns whether a request URI is of our own making, as opposed to the URL of a request object (RFC 9101). */
export function isStoredRequestUri(uri: string): boolean {
  return uri.startsWith(prefix);
}

/** Returns the SHA-256 under which the database knows a request URI. */
export function requestHashOf(uri: string): string {
  return hashToBytea(uri.slice(prefix.length));
}

/**
 * Stores a request whose client and redirect URI were checked, so that no redirect carries its parameters.
 * @returns its request URI
 * @throws Response 429 RATE_LIMITED; 503 AUTH_UNAVAILABLE
 */
export async function storeRequest(context: AppLoadContext, { clientId, parameters }: StoredRequest): Promise<string> {
  const uri = newRequestUri();
  const answer = await callAppFunction(context, {
    name: "store_authorization_request",
    args: {
      client_id: clientId,
      parameters: `${parameters}`,
      handle_hash: requestHashOf(uri),
      address: context.clientAddress,
    },
    schema: storedAnswer,
  });
  if (!("refused" in answer)) return uri;
  throw problem("RATE_LIMITED", {
    requestId: context.requestId,
    headers: { "Retry-After": String(answer.retryAfterSeconds ?? 1) },
  });
}

/**
 * Returns a stored request, or null if it was answered, has expired or is unknown.
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function readStoredRequest(context: AppLoadContext, uri: string): Promise<StoredRequest | null> {
  const stored = await callAppFunction(context, {
    name: "read_authorization_request",
    args: { handle_hash: requestHashOf(uri) },
    schema: z.object({ clientId: z.string(), parameters: z.string() }).nullable(),
  });
  return stored && { clientId: stored.clientId, parameters: new URLSearchParams(stored.parameters) };
}

/**
 * Ends a stored request that is answered with an error. The database ends those that are answered with a code.
 * @returns whether it was still open
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function endStoredRequest(context: AppLoadContext, uri: string): Promise<boolean> {
  return callAppFunction(context, {
    name: "end_authorization_request",
    args: { handle_hash: requestHashOf(uri) },
    schema: z.boolean(),
  });
}
