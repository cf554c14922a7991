import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { appsUnavailable, callAppFunction, createRefusalSchema } from "../apps/app-database.ts";
import { hashToBytea } from "../apps/opaque-tokens.ts";
import { openidBearerToken } from "../http/authorization.ts";
import { readBody } from "../http/body-limit.ts";
import { oauthError } from "./oauth-error.ts";

const userinfoAnswer = z.union([
  createRefusalSchema("token", "scope", "unavailable"),
  z.looseObject({ sub: z.uuid() }),
]);

/**
 * Answers `/oauth/userinfo` (OpenID Connect Core 1.0 section 5.3) for a token in the Authorization header or, posted as
 * a form, in the body (RFC 6750 sections 2.1 and 2.2).
 * @throws Response 400, 401 or 403 as defined in RFC 6750 section 3.1; 503 if the policy or the database does not
 * answer
 */
export async function answerUserinfo(context: AppLoadContext, request: Request): Promise<Response> {
  const token = await tokenOf(request, context);
  const claims = await callAppFunction(context, {
    name: "read_openid_userinfo",
    args: { access_hash: hashToBytea(token) },
    schema: userinfoAnswer,
  });
  if (!("refused" in claims)) return Response.json(claims, { headers: { "Cache-Control": "no-store" } });
  switch (claims.refused) {
    case "unavailable":
      throw appsUnavailable(context);
    case "scope":
      throw createBearerError("insufficient_scope", { status: 403, description: "The token lacks the scope openid" });
    default:
      throw createBearerError("invalid_token", {
        status: 401,
        description: "The access token is invalid, expired or revoked",
      });
  }
}

async function tokenOf(request: Request, context: Pick<AppLoadContext, "requestId">): Promise<string> {
  const authorization = request.headers.get("authorization");
  const isForm = request.headers.get("content-type")?.startsWith("application/x-www-form-urlencoded") ?? false;
  const body = request.method === "POST" && isForm ? await readBody(request, context) : undefined;
  const formTokens = new URLSearchParams(new TextDecoder().decode(body)).getAll("access_token");
  if (authorization !== null && formTokens.length > 0) {
    throw createBearerError("invalid_request", { status: 400, description: "Send the access token once" });
  }
  if (authorization === null && formTokens.length === 0) {
    // RFC 6750 section 3.1: a request without a token gets no error code.
    throw new Response(null, { status: 401, headers: { "WWW-Authenticate": "Bearer" } });
  }
  const token = authorization === null ? formTokens[0] : openidBearerToken(authorization);
  if (token && formTokens.length < 2) return token;
  throw createBearerError("invalid_token", {
    status: 401,
    description: "The access token is invalid, expired or revoked",
  });
}

function createBearerError(
  error: "invalid_request" | "invalid_token" | "insufficient_scope",
  { status, description }: { status: number; description: string },
): Response {
  const scope = error === "insufficient_scope" ? ', scope="openid"' : "";
  const challenge = `Bearer error="${error}", error_description="${description}"${scope}`;
  return oauthError(error, { status, description, headers: { "WWW-Authenticate": challenge } });
}
