import { createServerClient } from "@supabase/ssr";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Env } from "../env.server.ts";
import type { CookieJar } from "../http/cookies.ts";
import { authCallTimeoutMs, dataTimeoutMs } from "./limits.ts";
import {
  readSessionCookie,
  type SessionCookieScope,
  sessionCookieAttributes,
  writeSessionCookie,
} from "./session-cookie.ts";

/**
 * Headers of a call to the identity backend for one visitor: their address, so that visitors do not share our server's
 * limits, which the gateway in front believes only with the secret key as `apikey`. Authorization stays the
 * publishable key or the user's token: a secret one would skip the bot challenge.
 */
export function identityHeaders(env: Env, clientAddress: string): Record<string, string> {
  return {
    apikey: env.SUPABASE_SECRET_KEY,
    Authorization: `Bearer ${env.SUPABASE_PUBLISHABLE_KEY}`,
    "Sb-Forwarded-For": clientAddress,
  };
}

export interface AuthClientOptions {
  env: Env;
  jar: CookieJar;
  scope: SessionCookieScope;
  clientAddress: string;
}

/**
 * The client for what asks for a mail: sign-up, resend, recovery. It keeps nothing, and sends no PKCE challenge, since
 * our mails carry a token that the server redeems itself: no verifier stays in the browser, no window runs out.
 */
export function createMailClient({
  env,
  clientAddress,
}: Pick<AuthClientOptions, "env" | "clientAddress">): SupabaseClient {
  const { Authorization: _, ...headers } = identityHeaders(env, clientAddress);
  return createClient(env.SUPABASE_URL, env.SUPABASE_PUBLISHABLE_KEY, {
    auth: { flowType: "implicit", persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    global: { headers, fetch: fetchWithin(authCallTimeoutMs) },
  });
}

/** The client for sign-in, confirmation and sign-out of one request; its session is the request's cookies. */
export function createAuthClient({ env, jar, scope, clientAddress }: AuthClientOptions): SupabaseClient {
  const { Authorization: _, ...headers } = identityHeaders(env, clientAddress);
  return createServerClient(env.SUPABASE_URL, env.SUPABASE_PUBLISHABLE_KEY, {
    cookies: {
      encode: "tokens-only",
      getAll: () => jar.getAll(),
      setAll: async (cookies) => {
        for (const { name, value, options } of cookies) jar.set(name, value, options);
        // auth-js stores whatever the backend answered, an identity provider's own tokens included.
        const session = await readSessionCookie(jar, scope);
        if (session) writeSessionCookie(jar, scope, session);
      },
    },
    cookieOptions: { ...sessionCookieAttributes(scope), name: scope.name },
    // Versions that know passkeys by default ignore it.
    auth: { experimental: { passkey: true } },
    global: { headers, fetch: fetchWithin(authCallTimeoutMs) },
  });
}

/**
 * For clients of the Data API: what is not answered is asked once. Of its own accord the client would try a read three
 * times more, for seconds, and as long as a Retry-After says.
 */
export const askedOnce = { retry: false };

/** The client for the Data API of one request, as the user whose token it is, under row-level security. */
export function createDataClient(env: Env, accessToken: string): SupabaseClient {
  return createClient(env.SUPABASE_URL, env.SUPABASE_PUBLISHABLE_KEY, {
    accessToken: async () => accessToken,
    db: askedOnce,
    global: { fetch: fetchWithin(dataTimeoutMs) },
  });
}

/** A fetch that gives up after a time of its own, beside the caller's signal. */
export function fetchWithin(timeoutMs: number): typeof globalThis.fetch {
  return (input, init) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    return fetch(input, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout });
  };
}
