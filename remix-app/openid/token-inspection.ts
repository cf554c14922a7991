import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { hashToBytea } from "../apps/opaque-tokens.ts";
import { revokeServiceToken } from "../machines/service-tokens.ts";
import {
  type ClientRequest,
  identifyClient,
  type OpenidClient,
  readClientForm,
  readClientRequest,
  refuseClient,
} from "./client-auth.ts";
import { oauthError } from "./oauth-error.ts";
import { isServiceRequest, readServiceClient, type ServiceClient } from "./service-client.ts";
import { verifyOwnJwt } from "./signing-keys.ts";
import { tokenPrefixes } from "./token-response.ts";

const unixSecondsSchema = z.number().int();
const introspectionAnswer = z.union([
  createRefusalSchema("unauthenticated", "unavailable"),
  z.object({ active: z.literal(false) }),
  z.object({
    active: z.literal(true),
    isAccess: z.boolean(),
    sub: z.uuid(),
    sid: z.uuid(),
    clientId: z.string(),
    resource: z.string().nullable(),
    name: z.string().nullish(),
    email: z.string().nullish(),
    scopes: z.array(z.string()),
    issuedAt: unixSecondsSchema,
    expiresAt: unixSecondsSchema,
  }),
]);

const noStore = { "Cache-Control": "no-store" };

/**
 * Answers `POST /oauth/introspect` (RFC 7662): tells a confidential client whether its own token is valid now, and an
 * app with a resource URL whether an access token for it is.
 * @throws Response an OAuth error; 503 if the policy or the database does not answer
 */
export async function answerIntrospection(context: AppLoadContext, request: Request): Promise<Response> {
  const { client, form } = await readClientRequest(request, context);
  const answer = await callAppFunction(context, {
    name: "introspect_openid_token",
    args: { client_id: client.id, secret_hash: client.secretHash, token_hash: await tokenHashIn(form, context) },
    schema: introspectionAnswer,
  });
  if ("refused" in answer) {
    throw answer.refused === "unavailable" ? appsUnavailable(context) : await refuseClient(context, client);
  }
  if (!answer.active) return Response.json({ active: false }, { headers: noStore });
  const { isAccess, sub, sid, clientId, resource, scopes, issuedAt, expiresAt, name, email } = answer;
  const body = {
    active: true,
    iss: context.env.BASE_URL,
    client_id: clientId,
    ...(resource !== null && { aud: resource }),
    sub,
    sid,
    scope: scopes.join(" "),
    iat: issuedAt,
    exp: expiresAt,
    ...(isAccess && { token_type: "Bearer" }),
    ...(name && { name }),
    ...(email && { email }),
  };
  return Response.json(body, { headers: noStore });
}

/**
 * Answers `POST /oauth/revoke` (RFC 7009). Revoking an access token ends only that token. Revoking a refresh token ends
 * its whole login. An unknown token is not an error.
 * @throws Response an OAuth error; 503 if the database does not answer
 */
export async function answerRevocation(context: AppLoadContext, request: Request): Promise<Response> {
  const form = await readClientForm(request, context);
  const authorization = request.headers.get("authorization");
  const posted = { form, authorization };
  const client = isServiceRequest(context, posted)
    ? await readServiceClient(context, posted)
    : identifyClient(form, { authorization, context }).client;
  const tokenHash = await tokenHashIn(form, context);
  if (!(await revokeToken(context, { client, tokenHash }))) throw await refuseClient(context, client);
  return new Response(null, { status: 200, headers: noStore });
}

/** Returns whether the client authenticated. */
async function revokeToken(
  context: AppLoadContext,
  { client, tokenHash }: { client: OpenidClient | ServiceClient; tokenHash: string },
): Promise<boolean> {
  if ("credential" in client) {
    const { clientId, credential } = client;
    return credential !== null && (await revokeServiceToken(context, { clientId, credential, tokenHash }));
  }
  return callAppFunction(context, {
    name: "revoke_openid_token",
    args: { client_id: client.id, secret_hash: client.secretHash, token_hash: tokenHash },
    schema: z.boolean(),
  });
}

/**
 * Returns the hash under which the database knows the token. A JWT counts only if this provider signed it as an access
 * token. Its `jti` is the opaque token that the database knows.
 */
async function tokenHashIn(form: ClientRequest["form"], context: AppLoadContext): Promise<string> {
  const token = form.get("token");
  if (!token) throw oauthError("invalid_request", { description: "token is required" });
  if (!token.includes(".")) return hashToBytea(token);
  const claims = await verifyOwnJwt(context, token, { typ: "at+jwt" });
  return hashToBytea(claims ? `${tokenPrefixes.access}${claims.jti}` : token);
}
