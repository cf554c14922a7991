import type { AppLoadContext } from "@remix-run/server-runtime";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { z } from "zod";
import { approvalProofHeader } from "#shared/claims.ts";
import type { Env } from "../config/env.server.ts";
import { problem } from "../http/problem.ts";

/** How long one question of the Data API may take. */
const dataTimeoutMs = 3_000;
/** What an account demands is known within two seconds, or the answer is 503. */
export const policyTimeoutMs = 1_900;

/**
 * For clients of the Data API: what is not answered is asked once. Of its own accord the client would try a read three
 * times more, for seconds, and as long as a Retry-After says.
 */
const askedOnce = { retry: false };

type ServiceEnv = Pick<Env, "SUPABASE_URL" | "SUPABASE_SECRET_KEY">;

/** A process has one environment, and so one client. */
const serviceClients = new WeakMap<ServiceEnv, SupabaseClient>();

/**
 * Returns the process's client for the Data API as our server, with the secret key, which bypasses row-level security.
 * For `.schema("private")` and its functions. It holds no session and signs no user in. Callers have verified the
 * user; no user id may come from what a visitor sent.
 * @param options.timeoutMs makes a client of its own
 */
export function createServiceClient(env: ServiceEnv, { timeoutMs }: { timeoutMs?: number } = {}): SupabaseClient {
  const shared = timeoutMs === undefined ? serviceClients.get(env) : undefined;
  if (shared) return shared;
  const client = createClient(env.SUPABASE_URL, env.SUPABASE_SECRET_KEY, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    db: askedOnce,
    global: { fetch: fetchWithin(timeoutMs ?? dataTimeoutMs) },
  });
  if (timeoutMs === undefined) serviceClients.set(env, client);
  return client;
}

/**
 * Calls a function that only our server may, and reads its answer.
 * @param options.timeoutMs for a function that may take longer than others
 * @throws Response 503 UNAVAILABLE where the database did not answer, or not as agreed; the log says which function
 */
export async function callFunction<Schema extends z.ZodType>(
  { env, requestId }: Pick<AppLoadContext, "env" | "requestId">,
  {
    name,
    args,
    schema,
    timeoutMs,
  }: { name: `${"ai" | "private"}.${string}`; args?: object; schema: Schema; timeoutMs?: number },
): Promise<z.output<Schema>> {
  const [area = "", called = ""] = name.split(".");
  const client = createServiceClient(env, timeoutMs === undefined ? {} : { timeoutMs });
  const { data, error } = await client.schema(area).rpc(called, args);
  const answer = schema.safeParse(data);
  if (!error && answer.success) return answer.data;
  console.error(`error request=${requestId} ${name} failed: ${error?.code || "unexpected answer"}`);
  throw problem("UNAVAILABLE", { requestId });
}

/**
 * The client for the Data API of one request, as the user whose token it is, under row-level security.
 * @param options.approvalProof makes the proof of the session's mobile approval for each call
 */
export function createDataClient(
  env: Env,
  { accessToken, approvalProof }: { accessToken: string; approvalProof: () => string | null },
): SupabaseClient {
  const fetchWithTimeout = fetchWithin(dataTimeoutMs);
  return createClient(env.SUPABASE_URL, env.SUPABASE_PUBLISHABLE_KEY, {
    accessToken: async () => accessToken,
    db: askedOnce,
    global: {
      fetch: (input, init) => {
        const headers = new Headers(init?.headers);
        setApprovalProof(headers, approvalProof());
        return fetchWithTimeout(input, { ...init, headers });
      },
    },
  });
}

/** Adds the proof of a mobile approval to a call of our server with a session's token. */
export function setApprovalProof(headers: Headers, proof: string | null): void {
  if (proof !== null) headers.set(approvalProofHeader, proof);
}

/** Returns a fetch with a timeout in addition to the caller's signal. */
export function fetchWithin(timeoutMs: number): typeof globalThis.fetch {
  return (input, init) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    return fetch(input, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout });
  };
}
