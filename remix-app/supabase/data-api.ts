import type { AppLoadContext } from "@remix-run/node";
import { PostgrestClient } from "@supabase/postgrest-js";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { z } from "zod";
import { approvalProofHeader } from "#shared/claims.ts";
import { logError } from "#shared/log.ts";
import type { Env } from "../config/env.server.ts";
import { problem } from "../http/problem.ts";
import { createFetchWithTimeout } from "./backend-fetch.ts";

/** The timeout of one call to the Data API. */
const dataTimeoutMs = 3_000;
/**
 * The timeout for reading an account's requirements. If they cannot be read, the response is 503 within two seconds.
 */
export const policyTimeoutMs = 1_900;

/**
 * Disables retries in clients of the Data API. By default, the client would retry a read three times, for seconds or as
 * long as a Retry-After header says.
 */
const noRetry = { retry: false };

const fetchData = /* @__PURE__ */ createFetchWithTimeout(dataTimeoutMs);

type ServiceEnv = Pick<Env, "SUPABASE_URL" | "SUPABASE_SECRET_KEY">;

/** The clients of each environment, by their timeout. A process has one environment. */
const serviceClients = new WeakMap<ServiceEnv, Map<number, SupabaseClient>>();

/**
 * Returns the client with which our server calls the Data API, usually for functions of `.schema("private")`. A process
 * shares one client for each timeout. Its secret key bypasses row-level security. It holds no session and signs no user
 * in. Callers must have verified the user, so never pass a user id from a visitor's input.
 */
export function createServiceClient(
  env: ServiceEnv,
  { timeoutMs = dataTimeoutMs }: { timeoutMs?: number } = {},
): SupabaseClient {
  const clients = serviceClients.get(env) ?? new Map<number, SupabaseClient>();
  serviceClients.set(env, clients);
  const shared = clients.get(timeoutMs);
  if (shared) return shared;
  const client = createClient(env.SUPABASE_URL, env.SUPABASE_SECRET_KEY, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    db: noRetry,
    global: { fetch: createFetchWithTimeout(timeoutMs) },
  });
  clients.set(timeoutMs, client);
  return client;
}

/**
 * Calls a function that only our server may call, and parses its result.
 * @param options.timeoutMs for a function that may take longer than others
 * @throws Response 503 UNAVAILABLE if the database did not answer, or its answer is not valid; the log names the
 * function
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
  const [schemaName = "", functionName = ""] = name.split(".");
  const client = createServiceClient(env, timeoutMs === undefined ? {} : { timeoutMs });
  const { data, error } = await client.schema(schemaName).rpc(functionName, args);
  const answer = schema.safeParse(data);
  if (!error && answer.success) return answer.data;
  logError(`${name} failed: ${error?.code || "unexpected answer"}`, { requestId });
  throw problem("UNAVAILABLE", { requestId });
}

/**
 * Creates a Data API client for one request. The client acts as the token's user, under row-level security.
 * @param options.approvalProof returns the proof of the session's mobile approval for each call
 */
export function createDataClient(
  env: Env,
  { accessToken, approvalProof }: { accessToken: string; approvalProof: () => string | null },
): PostgrestClient {
  return new PostgrestClient(`${env.SUPABASE_URL}/rest/v1`, {
    headers: { apikey: env.SUPABASE_PUBLISHABLE_KEY, Authorization: `Bearer ${accessToken}` },
    ...noRetry,
    fetch: (input, init) => {
      const headers = new Headers(init?.headers);
      setApprovalProof(headers, approvalProof());
      return fetchData(input, { ...init, headers });
    },
  });
}

/** Adds the proof of a mobile approval to the headers of a call that our server makes with a session's token. */
export function setApprovalProof(headers: Headers, proof: string | null): void {
  if (proof !== null) headers.set(approvalProofHeader, proof);
}
