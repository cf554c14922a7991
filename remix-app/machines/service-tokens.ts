import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logWarning } from "#shared/log.ts";
import { callAppFunction } from "../apps/app-database.ts";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import { storedKey } from "./assertion-key.ts";
import type { AssertionKey, VerifiedAssertion } from "./client-assertion.ts";

/**
 * How a service account proves itself: with the SHA-256 of a secret as a bytea for the Data API, or with an assertion
 * that one of its keys signed.
 */
export type ServiceCredential = { secretHash: string } | VerifiedAssertion;

type IssuedServiceToken =
  | { outcome: "issued"; token: string; scopes: string[]; expiresInSeconds: number }
  | { outcome: "invalid_client" }
  | { outcome: "invalid_scope" };

const tokenPrefix = "ghs_";
const clientIdForm = /^svc_[0-9a-f-]{36}$/;

/** Returns the `client_id` of a service account. */
export function serviceClientId(id: string): string {
  return `svc_${id}`;
}

/** Returns whether a client ID has the form of a service account's. */
export function isServiceClientId(clientId: string): boolean {
  return clientId.startsWith(serviceClientId(""));
}

const issueAnswer = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("issued"), scopes: z.array(z.string()), expiresIn: z.number().int().positive() }),
  z.object({ outcome: z.literal("invalid_client"), reason: z.string() }),
  z.object({ outcome: z.literal("invalid_scope") }),
]);

/** Returns the registered keys of a service account that may act; none for any other client. */
export function readServiceKeys(context: AppLoadContext, clientId: string): Promise<AssertionKey[]> {
  return callAppFunction(context, {
    name: "service_account_keys",
    args: { client_id: clientId },
    schema: z.array(z.object({ credentialId: z.uuid(), jwk: storedKey })),
  });
}

/**
 * Issues an access token to a service account. The database checks the account, its addresses and the credential,
 * consumes the assertion and stores the token's hash in one transaction. Issues no refresh token (RFC 6749 section
 * 4.4.3).
 * @param options.scopes null for all scopes of the service account
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function issueServiceToken(
  context: AppLoadContext,
  { clientId, credential, scopes }: { clientId: string; credential: ServiceCredential; scopes: string[] | null },
): Promise<IssuedServiceToken> {
  const token = newOpaqueToken(tokenPrefix);
  const answer = await callAppFunction(context, {
    name: "issue_service_token",
    args: {
      request: { ...requestOf(context, { clientId, credential, tokenHash: hashToBytea(token) }), scopes },
    },
    schema: issueAnswer,
  });
  if (answer.outcome === "invalid_client") {
    const { requestId } = context;
    if (clientIdForm.test(clientId)) logWarning(`${clientId} got no token: ${answer.reason}`, { requestId });
    return { outcome: "invalid_client" };
  }
  if (answer.outcome === "invalid_scope") return answer;
  return { outcome: "issued", token, scopes: answer.scopes, expiresInSeconds: answer.expiresIn };
}

/**
 * Revokes a service account's own token (RFC 7009). An unknown token is not an error.
 * @returns whether the service account authenticated
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export function revokeServiceToken(context: AppLoadContext, revocation: TokenRequest): Promise<boolean> {
  return callAppFunction(context, {
    name: "revoke_service_token",
    args: { request: requestOf(context, revocation) },
    schema: z.boolean(),
  });
}

interface TokenRequest {
  clientId: string;
  credential: ServiceCredential;
  tokenHash: string;
}

/** Returns what the database authenticates a service account by. */
function requestOf(context: AppLoadContext, { clientId, credential, tokenHash }: TokenRequest) {
  const common = { clientId, address: context.clientAddress, tokenHash };
  if ("secretHash" in credential) return { ...common, ...credential };
  const { credentialId, jti, expiresAt } = credential;
  return { ...common, credentialId, jti, assertionExpiresAt: expiresAt };
}
