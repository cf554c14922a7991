import { createHash } from "node:crypto";
import { decodeProtectedHeader } from "jose";
import * as oauth from "oauth4webapi";
import { requestOptions } from "./request-options.ts";

type Given = { response: Response; tokens: oauth.TokenEndpointResponse; keys: oauth.JWKSCacheInput };

/**
 * Verifies the signature of a token response's ID token, and the ID token's hash of the access token (OpenID Connect
 * Core sections 3.1.3.7 and 3.1.3.8). The library has already validated the claims.
 * @throws Error if the ID token is missing or invalid
 */
export async function verifyIdToken(
  server: oauth.AuthorizationServer,
  { response, tokens, keys }: Given,
): Promise<oauth.IDToken> {
  const claims = oauth.getValidatedIdTokenClaims(tokens);
  if (!claims || !tokens.id_token) throw new Error("The provider sent no ID token");
  await oauth.validateApplicationLevelSignature(server, response, {
    ...requestOptions(server.issuer),
    [oauth.jwksCache]: keys,
  });
  const { alg = "" } = decodeProtectedHeader(tokens.id_token);
  if (claims.at_hash !== undefined && claims.at_hash !== accessTokenHash(alg, tokens.access_token)) {
    throw new Error("The ID token is of another access token");
  }
  return claims;
}

/** Returns the left half of the access token's hash, computed with the hash function of the signature's algorithm. */
function accessTokenHash(algorithm: string, accessToken: string): string {
  const bits = /(256|384|512)$/.exec(algorithm)?.[1] ?? "512";
  const digest = createHash(`sha${bits}`).update(accessToken).digest();
  return digest.subarray(0, digest.length / 2).toString("base64url");
}
