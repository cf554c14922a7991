import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { Env } from "../config/env.server.ts";
import { type KeyRing, openKeyRing } from "../crypto/derived-key.ts";
import { basicChallenge, basicCredentials } from "../http/authorization.ts";
import { readJson } from "../http/json-body.ts";
import { problem } from "../http/problem.ts";
import { callAppFunction } from "./app-database.ts";
import { hashToBytea } from "./opaque-tokens.ts";

/** The app named in a request. Its credentials are not verified yet: each database function verifies them itself. */
export interface AppClient {
  name: string;
  /**
   * The app's name and its secret's hash, as the database functions take them. Comparing SHA-256 hashes leaks nothing
   * of the secret through timing.
   */
  credentials: { app_name: string; secret_hash: string };
}

/**
 * Returns the app whose server sends a request.
 * @throws Response 401 UNAUTHENTICATED without Basic credentials
 */
export function requireAppClient(request: Request, { requestId }: { requestId: string }): AppClient {
  const basic = basicCredentials(request.headers.get("authorization"));
  if (!basic) throw unknownApp({ requestId });
  return { name: basic.name, credentials: { app_name: basic.name, secret_hash: hashToBytea(basic.secret) } };
}

/**
 * Reads the JSON that an app's server posts. The database function that serves the request also verifies the app's
 * credentials. If the body is invalid, this function verifies the credentials before it returns the error.
 * @throws Response 401 if the credentials are invalid; else 415 or 400 from {@link readJson}
 */
export async function readAppRequest<Schema extends z.ZodType>(
  request: Request,
  { context, client, schema }: { context: AppLoadContext; client: AppClient; schema: Schema },
): Promise<z.output<Schema>> {
  try {
    return await readJson(request, { schema, requestId: context.requestId });
  } catch (refusal) {
    const answer = await callAppFunction(context, {
      name: "introspect_app_session",
      args: { ...client.credentials, token_hash: hashToBytea("") },
      schema: z.looseObject({ refused: z.string().optional() }),
    });
    if (answer.refused === "unauthenticated") throw await refuseApp(context);
    throw refusal;
  }
}

function unknownApp({ requestId }: { requestId: string }): Response {
  const detail = "No enabled app has this name and secret.";
  return problem("UNAUTHENTICATED", { requestId, detail, headers: { "WWW-Authenticate": basicChallenge } });
}

const attemptAnswer = z.discriminatedUnion("allowed", [
  z.object({ allowed: z.literal(true) }),
  z.object({ allowed: z.literal(false), retryAfterSeconds: z.number() }),
]);

/**
 * Returns the response for an app with invalid credentials. The response is the same for an unknown name, a wrong
 * secret and a disabled app. Repeated failures are rate-limited. Valid credentials never are.
 */
export async function refuseApp(context: AppLoadContext): Promise<Response> {
  await requireAllowedAttempt(context, { action: "app_secret" });
  return unknownApp(context);
}

type CountedAttempt = {
  action: "app_secret" | "handoff" | "client_registration" | "client_document";
  userId?: string;
};

/**
 * Counts an attempt at a rate-limited action (supabase/schemas/abuse/limits.sql).
 * @throws Response 503 AUTH_UNAVAILABLE if it cannot be counted
 */
export function countAttempt(context: AppLoadContext, attempt: CountedAttempt): Promise<z.infer<typeof attemptAnswer>> {
  const args = { attempt: { ...attempt, address: context.clientAddress } };
  return callAppFunction(context, { name: "begin_attempt", args, schema: attemptAnswer });
}

/**
 * Counts an attempt, and throws if the attempt is not allowed.
 * @throws Response 429 RATE_LIMITED; 503 AUTH_UNAVAILABLE if the attempt cannot be counted
 */
export async function requireAllowedAttempt(context: AppLoadContext, attempt: CountedAttempt): Promise<void> {
  const answer = await countAttempt(context, attempt);
  if (answer.allowed) return;
  throw problem("RATE_LIMITED", {
    requestId: context.requestId,
    detail: "That was too often. Wait, then try again.",
    headers: { "Retry-After": String(answer.retryAfterSeconds) },
  });
}

/**
 * Returns the platform's keys for apps.
 * @throws Response 503 UNAVAILABLE if it has none
 */
export async function requireAppKeys({ env, requestId }: AppLoadContext): Promise<AppKeys> {
  const keys = openAppKeys(env);
  if (keys) return keys;
  throw problem("UNAVAILABLE", {
    requestId,
    detail: "This platform is not set up for apps: APP_SESSION_SECRET is not set.",
  });
}

/** The platform's keys for apps, one per purpose. */
export interface AppKeys {
  /** Signs required-MFA proofs. */
  proof: KeyRing;
  /** Signs app sessions. */
  session: KeyRing;
  /** Derives the token that replaces a refreshed token. */
  successor: KeyRing;
}

type KeyEnv = Pick<Env, "APP_SESSION_SECRET" | "APP_SESSION_PREVIOUS_SECRETS">;

const keyCache = new WeakMap<KeyEnv, Promise<AppKeys>>();

/** Returns the keys, derived once per process, or null if the platform has no secret for apps. */
function openAppKeys(env: KeyEnv): Promise<AppKeys> | null {
  const { APP_SESSION_SECRET: current, APP_SESSION_PREVIOUS_SECRETS: previous = [] } = env;
  if (current === undefined) return null;
  const keys = keyCache.get(env) ?? deriveKeys([current, ...previous]);
  keyCache.set(env, keys);
  return keys;
}

async function deriveKeys(secrets: readonly [string, ...string[]]): Promise<AppKeys> {
  const [proof, session, successor] = await Promise.all([
    openKeyRing(secrets, "required-MFA proof"),
    openKeyRing(secrets, "app session"),
    openKeyRing(secrets, "successor of an app's token"),
  ]);
  return { proof, session, successor };
}
