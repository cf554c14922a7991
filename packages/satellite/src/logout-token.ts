import type { JWTPayload } from "jose";
import type { Settings } from "./options.ts";
import { createTokenVerifier, InvalidTokenError } from "./token-verifier.ts";

const logoutEvent = "http://schemas.openid.net/event/backchannel-logout";
const clockToleranceSeconds = 60;
const maxRememberedIds = 10_000;

/** The login that a logout token ends. At least one of `sid` and `sub` is set. */
export interface EndedLogin {
  sid?: string | undefined;
  sub?: string | undefined;
}

/** The logout token is invalid or was used before. */
export class LogoutTokenError extends Error {
  override name = "LogoutTokenError";
}

/**
 * Creates the verifier of logout tokens (OpenID Connect Back-Channel Logout 1.0 §2.6).
 * @returns a function that throws LogoutTokenError for an invalid token, and PlatformUnavailableError if the keys
 * cannot be loaded
 */
export function createLogoutTokenVerifier(settings: Settings) {
  const verifyToken = createTokenVerifier(settings);
  const usedUntil = new Map<string, number>();

  async function verify(token: string): Promise<JWTPayload> {
    try {
      return await verifyToken(token, {
        typ: "logout+jwt",
        audience: settings.appName,
        clockTolerance: clockToleranceSeconds,
        requiredClaims: ["iat", "exp", "jti", "events"],
      });
    } catch (error) {
      if (!(error instanceof InvalidTokenError)) throw error;
      throw new LogoutTokenError(`The logout token is invalid: ${error.message}`);
    }
  }

  return async (token: string): Promise<EndedLogin> => {
    const { events, nonce, sid, sub, jti, exp } = await verify(token);
    const event =
      typeof events === "object" && events !== null ? (events as Record<string, unknown>)[logoutEvent] : null;
    if (typeof event !== "object" || event === null) throw new LogoutTokenError("The token is not a logout token.");
    if (nonce !== undefined) throw new LogoutTokenError("A logout token must not have a nonce.");
    if (typeof sid !== "string" && !sub) throw new LogoutTokenError("The logout token has neither sid nor sub.");
    const id = String(jti);
    const nowSeconds = Date.now() / 1000;
    for (const [used, until] of usedUntil)
      if (until <= nowSeconds || usedUntil.size > maxRememberedIds) usedUntil.delete(used);
    if (usedUntil.has(id)) throw new LogoutTokenError("The logout token was used before.");
    usedUntil.set(id, Number(exp) + clockToleranceSeconds);
    return { sid: typeof sid === "string" ? sid : undefined, sub };
  };
}
