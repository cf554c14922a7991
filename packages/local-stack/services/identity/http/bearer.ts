import type { JWTPayload } from "jose";
import { isUuid } from "../core/admin-users.ts";
import type { Deps } from "../core/deps.ts";
import { AuthError } from "../core/errors.ts";
import { findSession, type Session, sessionExpiry } from "../core/sessions.ts";
import { hasSecondFactor } from "../core/tokens.ts";
import { findUserById, isBanned, type User } from "../core/users.ts";
import type { Request } from "./context.ts";

const nil = "00000000-0000-0000-0000-000000000000";

/** The user that a request's token authenticates. The session is undefined if the token names none. */
export type Authenticated = { claims: JWTPayload; user: User; session: Session | undefined; aud: string };

async function readToken(c: Request, deps: Deps): Promise<JWTPayload> {
  const [, token] = /^bearer (\S+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
  if (!token) throw new AuthError(401, "no_authorization", "This endpoint requires a valid Bearer token");
  return deps.keys.verify(token, deps.clock());
}

/**
 * Returns the user that the request's token authenticates. If the token names a session, that session must still exist.
 * @throws AuthError 401 no_authorization; 403 bad_jwt, user_not_found, session_not_found, user_banned; 400 bad_jwt
 */
export async function requireUser(c: Request, deps: Deps): Promise<Authenticated> {
  const authenticated = await loadSubject(await readToken(c, deps), deps);
  if (isBanned(authenticated.user, deps.clock())) throw new AuthError(403, "user_banned", "User is banned");
  return { ...authenticated, aud: audienceOf(c, authenticated.claims, deps) };
}

async function loadSubject(claims: JWTPayload, deps: Deps): Promise<Omit<Authenticated, "aud">> {
  const { sub, session_id: sessionId } = claims;
  if (!sub) throw new AuthError(403, "bad_jwt", "invalid claim: missing sub claim");
  if (!isUuid(sub)) throw new AuthError(400, "bad_jwt", "invalid claim: sub claim must be a UUID");
  const user = await findUserById(deps.db, { id: sub });
  if (!user) throw new AuthError(403, "user_not_found", "User from sub claim in JWT does not exist");
  if (!sessionId || sessionId === nil) return { claims, user, session: undefined };
  if (typeof sessionId !== "string" || !isUuid(sessionId)) {
    throw new AuthError(403, "bad_jwt", "invalid claim: session_id claim must be a UUID");
  }
  const session = await findSession(deps.db, { id: sessionId });
  if (!session) {
    throw new AuthError(403, "session_not_found", "Session from session_id claim in JWT does not exist");
  }
  return { claims, user, session };
}

/**
 * Returns the audience in the request's header. Without the header, returns the token's audience. Returns the
 * configured audience if the token names none or belongs to an administrator.
 */
function audienceOf(c: Request, claims: JWTPayload, { config }: Deps): string {
  const named = c.req.header("x-jwt-aud");
  if (named) return named;
  const [claimedAudience] = [claims.aud].flat();
  const isAdmin = config.GOTRUE_JWT_ADMIN_ROLES.includes(String(claims.role));
  return !isAdmin && claimedAudience ? claimedAudience : config.GOTRUE_JWT_AUD;
}

/**
 * Admits only administrators. If the token names a session, the session must still be valid.
 * @throws AuthError 401 no_authorization; 403 bad_jwt, not_admin, session_not_found, session_expired
 */
export async function requireAdmin(c: Request, deps: Deps): Promise<void> {
  const claims = await readToken(c, deps);
  if (claims.session_id && claims.session_id !== nil) {
    const { user, session } = await loadSubject(claims, deps);
    const expiry =
      session && sessionExpiry(session, { deps, hasSecondFactor: await hasSecondFactor(deps.db, user.id) });
    if (expiry) throw new AuthError(403, "session_expired", "Session is no longer valid");
  }
  if (!deps.config.GOTRUE_JWT_ADMIN_ROLES.includes(String(claims.role))) {
    throw new AuthError(403, "not_admin", "User not allowed");
  }
}
