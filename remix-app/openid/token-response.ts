import { createHash } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import type { Signer } from "./signing-keys.ts";

/**
 * Prefixes of the tokens and codes that clients hold. The database stores only their SHA-256 hashes. The access token for
 * a resource is a JWT, whose `jti` is the opaque token without its prefix.
 */
export const tokenPrefixes = { access: "gho_", refresh: "ghr_", code: "ghc_" } as const;

const idTokenSeconds = 3_600;

/** The plain text of an access token and its refresh token. */
export interface TokenPair {
  accessToken: string;
  refreshToken: string;
}

/** Creates a pair of tokens with 256 random bits each. */
export function newTokenPair(): TokenPair {
  return { accessToken: newOpaqueToken(tokenPrefixes.access), refreshToken: newOpaqueToken(tokenPrefixes.refresh) };
}

/** Returns a pair's hashes as arguments of `private.issue_openid_tokens`. */
export function hashesOf({ accessToken, refreshToken }: TokenPair): { access_hash: string; refresh_hash: string } {
  return { access_hash: hashToBytea(accessToken), refresh_hash: hashToBytea(refreshToken) };
}

const unixSecondsSchema = z.number().int().nonnegative();

/** The answer of `private.issue_openid_tokens` and `private.add_openid_tokens`; times in seconds since 1970. */
export const issuedTokens = z.object({
  sid: z.uuid(),
  sub: z.uuid(),
  clientId: z.string(),
  /** The audience of the access token; null if it is for the platform. */
  resource: z.string().nullable(),
  scopes: z.array(z.string()),
  nonce: z.string().nullish(),
  authTime: unixSecondsSchema.nullable(),
  acr: z.string(),
  amr: z.array(z.string()),
  /** Claims about the person that the ID token has (OpenID Connect Core 1.0 section 5.1). */
  claims: z.record(z.string(), z.unknown()),
  issuedAt: unixSecondsSchema,
  expiresAt: unixSecondsSchema,
  refreshable: z.boolean(),
});
export type IssuedTokens = z.output<typeof issuedTokens>;

/**
 * Creates the successful response of the token endpoint (RFC 6749 section 5.1), with an ID token if the scopes include
 * `openid`. Name, email and other claims are at the userinfo endpoint (OpenID Connect Core 1.0 section 5.4), and in the
 * ID token only if the client's registration or its request says so.
 */
export async function tokenResponse(
  { env }: Pick<AppLoadContext, "env">,
  { issued, pair, sign }: { issued: IssuedTokens; pair: TokenPair; sign: Signer },
): Promise<Response> {
  const { resource, scopes, issuedAt, expiresAt, refreshable } = issued;
  const accessToken =
    resource === null
      ? pair.accessToken
      : await sign({ typ: "at+jwt", claims: accessTokenClaims(env.BASE_URL, { issued, resource, pair }) });
  const body = {
    access_token: accessToken,
    token_type: "Bearer",
    expires_in: expiresAt - issuedAt,
    scope: scopes.join(" "),
    ...(refreshable && { refresh_token: pair.refreshToken }),
    ...(scopes.includes("openid") && {
      id_token: await sign({ typ: "JWT", claims: idTokenClaims(env.BASE_URL, { issued, accessToken }) }),
    }),
  };
  return Response.json(body, { headers: { "Cache-Control": "no-store", Pragma: "no-cache" } });
}

/** RFC 9068 section 2.2. */
function accessTokenClaims(
  iss: string,
  { issued, resource, pair }: { issued: IssuedTokens; resource: string; pair: TokenPair },
) {
  const { sub, sid, clientId, scopes, issuedAt, expiresAt, authTime, acr, amr } = issued;
  return {
    iss,
    sub,
    aud: resource,
    client_id: clientId,
    exp: expiresAt,
    iat: issuedAt,
    jti: pair.accessToken.slice(tokenPrefixes.access.length),
    scope: scopes.join(" "),
    sid,
    acr,
    ...(authTime !== null && { auth_time: authTime }),
    ...(amr.length > 0 && { amr }),
  };
}

function idTokenClaims(iss: string, { issued, accessToken }: { issued: IssuedTokens; accessToken: string }) {
  const { sub, sid, clientId, issuedAt, authTime, nonce, acr, amr, claims } = issued;
  return {
    ...claims,
    iss,
    sub,
    aud: clientId,
    exp: issuedAt + idTokenSeconds,
    iat: issuedAt,
    sid,
    acr,
    at_hash: leftHalfHash(accessToken),
    ...(authTime !== null && { auth_time: authTime }),
    ...(amr.length > 0 && { amr }),
    ...(nonce && { nonce }),
  };
}

/** Returns the left half of a token's SHA-256, as required for RS256 (OpenID Connect Core 1.0 section 3.1.3.6). */
function leftHalfHash(token: string): string {
  return createHash("sha256").update(token).digest().subarray(0, 16).toString("base64url");
}
