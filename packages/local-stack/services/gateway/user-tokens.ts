import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from "jose";
import { type Refusal, tokenRefusal, unavailable } from "./refusals.ts";

/** Allowed clock skew between us and the issuer, for `iat` and `nbf` (PostgREST allows the same). */
const clockSkewSeconds = 30;
const keySetTimeoutMs = 3_000;
/** Minimum time between two fetches of the key set that are caused by an unknown `kid`. */
const keySetCooldownMs = 1_000;

export type TokenVerification = { claims: JWTPayload } | { refusal: Refusal };
export type TokenVerifier = (token: string) => Promise<TokenVerification>;

/**
 * Creates a verifier for users' access tokens. It checks the ES256 signature against the identity backend's published
 * keys, and the issuer, audience and times. Keys are cached for ten minutes, and fetched again if a token names an
 * unknown key.
 */
export function createTokenVerifier(options: { jwksUrl: URL; issuer: string; audience: string }): TokenVerifier {
  const keySet = createRemoteJWKSet(options.jwksUrl, {
    timeoutDuration: keySetTimeoutMs,
    cooldownDuration: keySetCooldownMs,
  });
  return async (token) => {
    const parts = token === "" ? 0 : token.split(".").length;
    if (parts === 0) return { refusal: tokenRefusal("PGRST301", "Empty JWT is sent in Authorization header") };
    if (parts !== 3) return { refusal: tokenRefusal("PGRST301", `Expected 3 parts in JWT; got ${parts}`) };
    try {
      const { payload } = await jwtVerify(token, keySet, {
        algorithms: ["ES256"],
        issuer: options.issuer,
        audience: options.audience,
        requiredClaims: ["exp", "sub"],
      });
      if (payload.iat !== undefined && payload.iat > Date.now() / 1000 + clockSkewSeconds)
        return { refusal: tokenRefusal("PGRST303", "JWT issued at future") };
      return { claims: payload };
    } catch (error) {
      return { refusal: refusalOf(error) };
    }
  };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof errors.JWTExpired) return tokenRefusal("PGRST303", "JWT expired");
  if (error instanceof errors.JWTClaimValidationFailed) return tokenRefusal("PGRST303", claimMessage(error.claim));
  if (isKeySetFailure(error)) return unavailable("identity");
  return tokenRefusal("PGRST301", "No suitable key or wrong key type", "None of the keys was able to decode the JWT");
}

function claimMessage(claim: string): string {
  if (claim === "aud") return "JWT not in audience";
  if (claim === "iss") return "JWT not issued by this project";
  if (claim === "nbf") return "JWT not yet valid";
  return "Parsing claims failed";
}

/**
 * Returns whether an error is about the key set and not the token: a timeout, an error response, or an invalid key set.
 */
function isKeySetFailure(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true;
  return !(error instanceof errors.JOSEError) || error.code === "ERR_JOSE_GENERIC";
}
