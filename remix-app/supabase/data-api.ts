import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Env } from "../config/env.server.ts";
import { askedOnce, fetchWithin } from "../session/clients.ts";
import { dataTimeoutMs } from "../session/limits.ts";

/**
 * The Data API as our server itself: the secret key, which passes row-level security by. For `.schema("private")` and
 * its functions. Whoever calls has verified the user; nothing that a visitor sent may name one.
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
