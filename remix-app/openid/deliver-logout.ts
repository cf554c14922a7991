import type { Env } from "../config/env.server.ts";
import { allowsLoopback, PrivateAddress, requestPublic } from "../http/public-request.ts";
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
 * Posts a logout token to an app once (OpenID Connect Back-Channel Logout 1.0 section 2.5). Calls no private address,
 * follows no redirect and reads no response body.
 */
export async function deliverLogout(
  env: Env,
  { notice, signal }: { notice: LogoutNotice; signal: AbortSignal },
): Promise<Delivery> {
  try {
    const url = new URL(notice.uri);
    const response = await requestPublic(url, {
      method: "POST",
      headers: {
        "Content-Type": "application/x-www-form-urlencoded",
        // SvelteKit and Astro refuse a form from any other origin than their own.
        Origin: url.origin,
      },
      body: `${new URLSearchParams({ logout_token: await signLogoutToken(env, notice) })}`,
      allowLoopback: allowsLoopback(env),
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    response.destroy();
    const { statusCode } = response;
    // Some frameworks answer 204 instead of 200 (Back-Channel Logout 1.0 section 2.8).
    if (statusCode === 200 || statusCode === 204) return { outcome: "acknowledged" };
    return { outcome: statusCode === 400 ? "refused" : "failed", reason: `status ${statusCode}` };
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
  if (error instanceof PrivateAddress) return error.message;
  if (!(error instanceof Error)) return "unknown failure";
  return "code" in error ? String(error.code) : error.name;
}
