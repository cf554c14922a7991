import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { appsUnavailable, callAppFunction, refusalOf } from "../satellites/app-database.ts";
import { hashOf } from "../satellites/tokens.ts";
import { type ClientRequest, readClientRequest, refuseClient } from "./client-auth.ts";
import { oauthError } from "./oauth-error.ts";

const second = z.number().int();
const introspected = z.union([
  refusalOf("unauthenticated", "unavailable"),
  z.object({ active: z.literal(false) }),
  z.object({
    active: z.literal(true),
    isAccess: z.boolean(),
    sub: z.uuid(),
    sid: z.uuid(),
    scopes: z.array(z.string()),
    issuedAt: second,
    expiresAt: second,
  }),
]);

const noStore = { "Cache-Control": "no-store" };

/**
 * Answers `POST /oauth/introspect` (RFC 7662): tells a confidential client whether its own token is valid now.
 * @throws Response an OAuth error; 503 if the policy or the database does not answer
 */
export async function answerIntrospection(context: AppLoadContext, request: Request): Promise<Response> {
  const { client, form } = await readClientRequest(request, context);
  const answer = await callAppFunction(context, {
    name: "introspect_openid_token",
    args: { client_id: client.id, secret_hash: client.secretHash, token_hash: hashOf(tokenIn(form)) },
    schema: introspected,
  });
  if ("refused" in answer) {
    throw answer.refused === "unavailable" ? appsUnavailable(context) : await refuseClient(context, client);
  }
  if (!answer.active) return Response.json({ active: false }, { headers: noStore });
  const { isAccess, sub, sid, scopes, issuedAt, expiresAt } = answer;
  const body = {
    active: true,
    iss: context.env.BASE_URL,
    client_id: client.id,
    sub,
    sid,
    scope: scopes.join(" "),
    iat: issuedAt,
    exp: expiresAt,
    ...(isAccess && { token_type: "Bearer" }),
  };
  return Response.json(body, { headers: noStore });
}

/**
 * Answers `POST /oauth/revoke` (RFC 7009). Revoking an access token ends only that token. Revoking a refresh token ends
 * its whole login. An unknown token is not an error.
 * @throws Response an OAuth error
 */
export async function answerRevocation(context: AppLoadContext, request: Request): Promise<Response> {
  const { client, form } = await readClientRequest(request, context);
  const isAuthenticated = await callAppFunction(context, {
    name: "revoke_openid_token",
    args: { client_id: client.id, secret_hash: client.secretHash, token_hash: hashOf(tokenIn(form)) },
    schema: z.boolean(),
  });
  if (!isAuthenticated) throw await refuseClient(context, client);
  return new Response(null, { status: 200, headers: noStore });
}

function tokenIn(form: ClientRequest["form"]): string {
  const token = form.get("token");
  if (token) return token;
  throw oauthError("invalid_request", { description: "token is required" });
}
