import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Env } from "../config/env.server.ts";
import { fetchWithin } from "../supabase/data-api.ts";
import { authCallTimeoutMs } from "./limits.ts";
import { type StoredSession, storedSession } from "./session-cookie.ts";

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
  clientAddress: string;
  /** Reads and replaces the session of the request; null signs it out. */
  session: { get: () => StoredSession | null; set: (session: StoredSession | null) => void };
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

const sessionKey = "session";

/** The client for sign-in, confirmation and sign-out of one request, with the request's session. */
export function createAuthClient({ env, clientAddress, session }: AuthClientOptions): SupabaseClient {
  const { Authorization: _, ...headers } = identityHeaders(env, clientAddress);
  const storage = {
    isServer: true,
    getItem: (key: string) => (key === sessionKey && session.get() ? JSON.stringify(session.get()) : null),
    // auth-js stores all that the backend answered, including an identity provider's own tokens.
    setItem: (key: string, value: string) => {
      if (key === sessionKey) session.set(storedSession.parse(JSON.parse(value)));
    },
    removeItem: (key: string) => {
      if (key === sessionKey) session.set(null);
    },
  };
  return createClient(env.SUPABASE_URL, env.SUPABASE_PUBLISHABLE_KEY, {
    auth: {
      storageKey: sessionKey,
      storage,
      persistSession: true,
      autoRefreshToken: false,
      detectSessionInUrl: false,
      skipAutoInitialize: true,
      // Versions that know passkeys by default ignore it.
      experimental: { passkey: true },
    },
    global: { headers, fetch: fetchWithin(authCallTimeoutMs) },
  });
}
