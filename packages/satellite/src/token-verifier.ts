import { createRemoteJWKSet, errors, type JWTPayload, type JWTVerifyOptions, jwtVerify } from "jose";
import { PlatformUnavailableError } from "./errors.ts";
import type { Settings } from "./options.ts";

const keysTimeoutMs = 5_000;

/** The token was not issued by the platform for this purpose and audience, or has expired. */
export class InvalidTokenError extends Error {
  override name = "InvalidTokenError";
}

interface ExpectedToken extends Pick<JWTVerifyOptions, "clockTolerance" | "requiredClaims"> {
  typ: "logout+jwt" | "at+jwt";
  audience: string;
}

/**
 * Creates the verifier of tokens that the platform signs.
 * @returns a function that throws InvalidTokenError for an invalid token, and PlatformUnavailableError if the keys cannot
 * be loaded
 */
export function createTokenVerifier({ platformUrl, platformApiUrl }: Pick<Settings, "platformUrl" | "platformApiUrl">) {
  const keys = createRemoteJWKSet(new URL("/.well-known/jwks.json", platformApiUrl), {
    timeoutDuration: keysTimeoutMs,
  });
  return async (token: string, expected: ExpectedToken): Promise<JWTPayload> => {
    try {
      return (await jwtVerify(token, keys, { ...expected, issuer: platformUrl, algorithms: ["RS256"] })).payload;
    } catch (error) {
      const isInvalid = error instanceof errors.JOSEError && !isKeyLoadingError(error);
      if (isInvalid) throw new InvalidTokenError(error.message);
      throw new PlatformUnavailableError(`The platform's keys are unavailable: ${String(error)}`);
    }
  };
}

/**
 * Returns whether the error means that the keys could not be loaded. Other errors mean that a key or the token is
 * invalid.
 */
function isKeyLoadingError(error: errors.JOSEError): boolean {
  return error instanceof errors.JWKSTimeout || error.code === "ERR_JOSE_GENERIC";
}
