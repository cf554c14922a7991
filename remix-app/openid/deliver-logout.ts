import type { Env } from "../config/env.server.ts";
import { signJwt } from "./signing-keys.ts";

/** Shorter than the five seconds after which another server may claim the notice. */
const timeoutMs = 4_000;
const tokenSeconds = 120;
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout";

/** A login that has ended, and the URL at which its app wants to be notified. */
export interface LogoutNotice {
  id: string;
  app: string;
  uri: string;
  userId: string;
  sid: string;
}

/** `refused` means that the app answered 400, so it would refuse another attempt too. */
export type Delivery = { outcome: "acknowledged" } | { outcome: "refused" | "failed"; reason: string };

/**
 * Posts a logout token to an app once (OpenID Connect Back-Channel Logout 1.0 section 2.5). Follows no redirect and
 * reads no response body.
 */
export async function deliverLogout(
  env: Env,
  { notice, signal }: { notice: LogoutNotice; signal: AbortSignal },
): Promise<Delivery> {
  try {
    const response = await fetch(notice.uri, {
      method: "POST",
      body: new URLSearchParams({ logout_token: await signLogoutToken(env, notice) }),
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    await response.body?.cancel();
    // Some frameworks answer 204 instead of 200 (Back-Channel Logout 1.0 section 2.8).
    if (response.status === 200 || response.status === 204) return { outcome: "acknowledged" };
    return { outcome: response.status === 400 ? "refused" : "failed", reason: `status ${response.status}` };
  } catch (error) {
    return { outcome: "failed", reason: reasonOf(error) };
  }
}

/**
 * Signs a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.4). The `jti` is the same for every attempt to
 * deliver the notice.
 */
async function signLogoutToken(env: Env, { id, app, userId, sid }: LogoutNotice): Promise<string> {
  const second = Math.floor(Date.now() / 1000);
  const claims = {
    iss: env.BASE_URL,
    aud: app,
    sub: userId,
    sid,
    iat: second,
    exp: second + tokenSeconds,
    jti: id,
    events: { [logoutEvent]: {} },
  };
  return signJwt({ env }, { typ: "logout+jwt", claims });
}

function reasonOf(error: unknown): string {
  if (error instanceof Response) return `the token could not be signed: status ${error.status}`;
  if (!(error instanceof Error)) return "unknown failure";
  const { cause } = error;
  return cause instanceof Error && "code" in cause ? String(cause.code) : error.name;
}
