import { type Claims, type ClaimsResult, type ClaimsVerifier, expiryOf } from "#shared/claims.ts";
import { bearerToken } from "../http/bearer.ts";
import type { CookieJar } from "../http/cookies.ts";
import { refreshMarginSeconds } from "./limits.ts";
import type { SessionRefresher } from "./refresh.ts";
import {
  clearSessionCookie,
  hasSessionCookie,
  readSessionCookie,
  type SessionCookieScope,
  type StoredSession,
  writeSessionCookie,
} from "./session-cookie.ts";

/**
 * Who a request comes from. `unavailable`: it brought a session that nobody could judge; its cookies stay. `refreshed`:
 * the answer carries the session's new cookie.
 */
export type RequestAuth =
  | { status: "anonymous" }
  | { status: "authenticated"; via: "cookie" | "bearer"; accessToken: string; claims: Claims; refreshed: boolean }
  | { status: "unavailable" };

export interface EdgeProxyOptions {
  verifyClaims: ClaimsVerifier;
  refreshSession: SessionRefresher;
  now?: () => number;
}

export interface RequestCredentials {
  authorization: string | null;
  jar: CookieJar;
  scope: SessionCookieScope;
  /** Headers for calls to the identity backend on behalf of this visitor. */
  identityHeaders: Record<string, string>;
}

export type EdgeProxy = (credentials: RequestCredentials) => Promise<RequestAuth>;

/**
 * Makes the edge proxy: reads a request's session once, refreshes it in time, and leaves in the jar what the answer
 * has to set. A request with an Authorization header never falls back to its cookies.
 */
export function createEdgeProxy({ verifyClaims, refreshSession, now = Date.now }: EdgeProxyOptions): EdgeProxy {
  async function fromBearer(authorization: string, identityHeaders: Record<string, string>): Promise<RequestAuth> {
    const accessToken = bearerToken(authorization);
    if (accessToken === null) return { status: "anonymous" };
    const result = await verifyClaims(accessToken, { identityHeaders });
    return toAuth(result, { via: "bearer", accessToken, refreshed: false });
  }

  async function fromCookie({ jar, scope, identityHeaders }: RequestCredentials): Promise<RequestAuth> {
    const stored = await readSessionCookie(jar, scope);
    const expiry = stored && expiryOf(stored.access_token);
    if (!stored || expiry === null) {
      if (hasSessionCookie(jar, scope)) clearSessionCookie(jar, scope);
      return { status: "anonymous" };
    }

    async function refresh(session: StoredSession) {
      const result = await refreshSession(session.refresh_token, { identityHeaders });
      if (result.status === "refreshed") writeSessionCookie(jar, scope, result.session);
      if (result.status === "refused") clearSessionCookie(jar, scope);
      return result;
    }

    let session = stored;
    const nowSeconds = now() / 1000;
    if (expiry - nowSeconds <= refreshMarginSeconds) {
      const result = await refresh(stored);
      if (result.status === "refused") return { status: "anonymous" };
      if (result.status === "unavailable" && expiry <= nowSeconds) return { status: "unavailable" };
      if (result.status === "refreshed") session = result.session;
    }

    let result = await verifyClaims(session.access_token, { identityHeaders });
    if (result.status === "refused" && session === stored) {
      // A token of a key that is gone: the backend decides whether the session itself lives on.
      const renewed = await refresh(session);
      if (renewed.status === "unavailable") return { status: "unavailable" };
      if (renewed.status === "refused") return { status: "anonymous" };
      session = renewed.session;
      result = await verifyClaims(session.access_token, { identityHeaders });
    }
    return toAuth(result, { via: "cookie", accessToken: session.access_token, refreshed: session !== stored });
  }

  return (credentials) =>
    credentials.authorization === null
      ? fromCookie(credentials)
      : fromBearer(credentials.authorization, credentials.identityHeaders);
}

function toAuth(
  result: ClaimsResult,
  how: { via: "cookie" | "bearer"; accessToken: string; refreshed: boolean },
): RequestAuth {
  if (result.status === "valid") return { status: "authenticated", claims: result.claims, ...how };
  return { status: result.status === "refused" ? "anonymous" : "unavailable" };
}
