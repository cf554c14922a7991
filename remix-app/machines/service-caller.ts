import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callAppFunction } from "../apps/app-database.ts";
import { hashToBytea } from "../apps/opaque-tokens.ts";
import { serviceBearerToken } from "../http/authorization.ts";
import { problem } from "../http/problem.ts";

const serviceCaller = z.object({
  id: z.uuid(),
  name: z.string(),
  /** Null for a service account of the platform. */
  workspaceId: z.uuid().nullable(),
  /** The scopes of the token that the service account still has. */
  scopes: z.array(z.string()),
});

/** A service account that makes a request. */
type ServiceCaller = z.output<typeof serviceCaller>;

/**
 * Returns the service account that makes a request, as its row is now. Null if the request has no token of a service
 * account. Such a request has no session, because a bearer request reads no cookies.
 * @throws Response 401 UNAUTHENTICATED for an unknown, expired or revoked token, or from an address that the service
 * account doesn't allow; 503 AUTH_UNAVAILABLE
 */
export async function getServiceCaller(context: AppLoadContext, request: Request): Promise<ServiceCaller | null> {
  const token = serviceBearerToken(request.headers.get("authorization"));
  if (token === null) return null;
  const caller = await callAppFunction(context, {
    name: "read_service_caller",
    args: { token_hash: hashToBytea(token), address: context.clientAddress },
    schema: serviceCaller.nullable(),
  });
  if (caller) return caller;
  throw problem("UNAUTHENTICATED", {
    requestId: context.requestId,
    detail: "This service account’s token is not valid here, or has ended. Get a new one at /oauth/token.",
    headers: { "WWW-Authenticate": 'Bearer error="invalid_token"' },
  });
}
