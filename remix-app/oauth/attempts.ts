import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { OAuthState, StateValues } from "./state.ts";

/** The identity backend's result of a visit to a provider. */
export type OAuthFlow = z.infer<typeof oauthFlow>;

const oauthFlow = z.object({
  userId: z.uuid(),
  email: z.string().nullable(),
  /** Whether the account is banned or deleted. */
  closed: z.boolean(),
  /** The account to link to; null for a sign-in. */
  linkedTo: z.uuid().nullable(),
  identity: z.object({
    email: z.string().nullable(),
    issuer: z.string().nullable(),
    /** False for an identity that joined an account without the owner's confirmation. */
    confirmed: z.boolean(),
    /** Whether an app linked it at the backend, and the owner has not confirmed it. */
    addedByApp: z.boolean().default(false),
  }),
});

const inspection = z.object({ flow: oauthFlow.nullable() }).nullable();

/** The result of an attempt; see `private.complete_oauth_attempt`. */
export type OAuthVerdict = "sign_in" | "link" | "refuse";

/**
 * Starts an attempt, and records it in the database so that the attempt can be completed only once.
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function beginAttempt(
  context: AppLoadContext,
  { values, payload }: { values: StateValues; payload: OAuthState },
): Promise<void> {
  const { purpose, provider } = payload;
  const owner = purpose === "sign_in" ? {} : { userId: payload.userId, sessionId: payload.sessionId };
  const attempt = { stateHash: values.hash, purpose, provider, ...owner };
  const { error } = await openPrivateSchema(context).rpc("begin_oauth_attempt", { attempt });
  if (error) throw unavailable(context, error.code);
}

/**
 * Returns the identity backend's result of an attempt, without ending the attempt.
 * @returns null if the attempt was used or has expired, or if the code does not belong to the attempt
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function inspectAttempt(
  context: AppLoadContext,
  { values, code }: { values: StateValues; code: string },
): Promise<OAuthFlow | null> {
  const { data, error } = await openPrivateSchema(context).rpc("inspect_oauth_attempt", {
    attempt_hash: values.hash,
    code,
    challenge: values.challenge,
  });
  const result = inspection.safeParse(data);
  if (error || !result.success) throw unavailable(context, error?.code ?? "answer");
  return result.data?.flow ?? null;
}

/**
 * Ends an attempt.
 * @param options.code null if the provider sent none
 * @returns whether this call ended it; of any number of concurrent calls, only one does
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function completeAttempt(
  context: AppLoadContext,
  { values, code, verdict }: { values: StateValues; code: string | null; verdict: OAuthVerdict },
): Promise<boolean> {
  const { data, error } = await openPrivateSchema(context).rpc("complete_oauth_attempt", {
    attempt_hash: values.hash,
    code,
    challenge: values.challenge,
    verdict,
  });
  if (error || typeof data !== "boolean") throw unavailable(context, error?.code ?? "answer");
  return data;
}

function openPrivateSchema({ env }: AppLoadContext) {
  return createServiceClient(env).schema("private");
}

function unavailable({ requestId }: AppLoadContext, code: string): Response {
  logError(`visits to providers cannot be kept: ${code}`, { requestId });
  return problem("AUTH_UNAVAILABLE", { requestId });
}
