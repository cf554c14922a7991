import { randomBytes } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { type AuthError, type AuthTokenResponsePassword, createClient } from "@supabase/supabase-js";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { authCallTimeoutMs, identityHeaders } from "../session/request-session.ts";
import { createFetchWithTimeout } from "../supabase/backend-fetch.ts";
import { createServiceClient } from "../supabase/data-api.ts";

const provenAnswer = z.object({
  outcome: z.literal("proven"),
  overrideId: z.uuid(),
  userId: z.uuid(),
  banned: z.boolean(),
  confirmed: z.boolean(),
});

/**
 * Finishes a sign-in for which an override lifted the limits, and records the identity backend's answer. If the account
 * is banned or its email unconfirmed, verifies the password, lifts the block, and signs in again. The second attempt
 * uses our secret key, because the first attempt has used up the bot challenge's token.
 * @param options.response the identity backend's answer to the first attempt
 * @returns the answer to the last attempt that was made
 */
export async function signInUnderOverride(
  context: AppLoadContext,
  {
    email,
    password,
    overrideId,
    response,
  }: { email: string; password: string; overrideId: string; response: AuthTokenResponsePassword },
): Promise<AuthTokenResponsePassword> {
  const refusal = response.error;
  if (refusal?.code !== "user_banned" && refusal?.code !== "email_not_confirmed") {
    await recordSignInUnderOverride(context, { email, overrideId, error: refusal, userId: response.data.user?.id });
    return response;
  }
  const { env, clientAddress, userAgent, requestId } = context;
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("verify_override_password", { request: { email, password, ip: clientAddress, userAgent, requestId } });
  const proof = provenAnswer.safeParse(data);
  if (error || !proof.success) return response;
  await liftBlocks(context, { ...proof.data, email, proof: "password" });
  const { Authorization: _, ...headers } = identityHeaders(env, clientAddress);
  const { auth } = createClient(env.SUPABASE_URL, env.SUPABASE_SECRET_KEY, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    global: { headers, fetch: createFetchWithTimeout(authCallTimeoutMs) },
  });
  return auth.signInWithPassword({ email, password });
}

/**
 * Records the result of a sign-in attempt for an email that has a login override. Does not lift a ban, because the
 * person may have proved only that they received an emailed code.
 */
export async function recordSignInUnderOverride(
  context: AppLoadContext,
  {
    email,
    overrideId,
    error,
    userId,
  }: { email: string; overrideId: string; error: AuthError | null; userId: string | undefined },
): Promise<void> {
  if (error && error.code !== "invalid_credentials" && error.code !== "otp_expired") return;
  await recordRecovery(context, {
    email,
    overrideId,
    ...(userId ? { userId } : {}),
    ...(error ? { kind: "reject", outcome: "login_wrong" } : { kind: "login_bypass", outcome: "signed_in" }),
  });
}

/** An account whose owner proved access with a recovery credential, or with the password under an override. */
export interface BlockedAccount {
  userId: string;
  email: string;
  overrideId: string;
  banned: boolean;
  confirmed: boolean;
}

/**
 * Lifts a ban and confirms the email of an account whose credential has been proven. An attacker may have created an
 * unconfirmed account and set its password. If the person proved access to the mailbox, the same call replaces that
 * password with a random one.
 * @returns false if the update failed; either outcome is recorded
 */
export async function liftBlocks(
  context: AppLoadContext,
  account: BlockedAccount & { proof: "password" | "mailbox" },
): Promise<boolean> {
  const { userId, banned, confirmed, proof, ...about } = account;
  if (!banned && confirmed) return true;
  const { auth } = createServiceClient(context.env);
  const replacesPassword = !confirmed && proof === "mailbox";
  const { error } = await auth.admin.updateUserById(userId, {
    // Only a ban that the recovery knew of: another one may have been set meanwhile.
    ...(banned ? { ban_duration: "none" } : {}),
    email_confirm: true,
    ...(replacesPassword ? { password: randomBytes(32).toString("base64url") } : {}),
  });
  await recordRecovery(context, {
    ...about,
    userId,
    kind: "unban_attempt",
    outcome: error ? "failed" : banned ? "unbanned" : "confirmed",
  });
  return !error;
}

/** Creates a confirmed account for an email without an account. @returns its id, or null on failure */
export async function createRecoveredAccount(
  context: AppLoadContext,
  about: { email: string; overrideId: string },
): Promise<string | null> {
  const { auth } = createServiceClient(context.env);
  const { data, error } = await auth.admin.createUser({ email: about.email, email_confirm: true });
  const userId = data.user?.id ?? null;
  await recordRecovery(context, {
    ...about,
    kind: "user_create_attempt",
    outcome: error ? "failed" : "created",
    ...(userId ? { userId } : {}),
  });
  return userId;
}

async function recordRecovery(
  { env, requestId, clientAddress, userAgent }: AppLoadContext,
  event: { kind: string; outcome: string; email: string; overrideId?: string; userId?: string },
): Promise<void> {
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_recovery_event", { event: { ...event, ip: clientAddress, userAgent, requestId } });
  if (error) logError(`the ${event.kind} of a recovery was not recorded: ${error.code}`, { requestId });
}
