import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Env } from "../config/env.server.ts";

/** How long one question of the Data API may take. */
const dataTimeoutMs = 3_000;

/**
 * For clients of the Data API: what is not answered is asked once. Of its own accord the client would try a read three
 * times more, for seconds, and as long as a Retry-After says.
 */
const askedOnce = { retry: false };

/**
 * The client for the Data API as our server, with the secret key, which bypasses row-level security. For `.schema("private")`
 * and its functions. Callers have verified the user; no user id may come from what a visitor sent.
 */
export function createServiceClient(
  { SUPABASE_URL, SUPABASE_SECRET_KEY }: Pick<Env, "SUPABASE_URL" | "SUPABASE_SECRET_KEY">,
  { timeoutMs = dataTimeoutMs } = {},
): SupabaseClient {
  return createClient(SUPABASE_URL, SUPABASE_SECRET_KEY, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    db: askedOnce,
    global: { fetch: fetchWithin(timeoutMs) },
  });
}

/** The client for the Data API of one request, as the user whose token it is, under row-level security. */
export function createDataClient(env: Env, accessToken: string): SupabaseClient {
  return createClient(env.SUPABASE_URL, env.SUPABASE_PUBLISHABLE_KEY, {
    accessToken: async () => accessToken,
    db: askedOnce,
    global: { fetch: fetchWithin(dataTimeoutMs) },
  });
}

/** Returns a fetch with a timeout in addition to the caller's signal. */
export function fetchWithin(timeoutMs: number): typeof globalThis.fetch {
  return (input, init) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    return fetch(input, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout });
  };
}
