import { randomBytes } from "node:crypto";
import type { AppLoadContext } from "@remix-run/server-runtime";
import { createServiceClient } from "../supabase/data-api.ts";

/** An account that has proved itself by a recovery credential, or by its password under an override. */
export interface BlockedAccount {
  userId: string;
  email: string;
  overrideId: string;
  banned: boolean;
  confirmed: boolean;
}

/**
 * Lifts a ban and confirms the email. Only after the credential has been proven. Where that was no password, the one of
 * an unconfirmed account is anybody's who signed up with the email: in the same call it gives way to one nobody knows.
 * @returns whether nothing blocks any more; what could not be lifted is recorded
 */
export async function liftBlocks(
  context: AppLoadContext,
  account: BlockedAccount & { provenBy: "password" | "mailbox" },
): Promise<boolean> {
  const { userId, banned, confirmed, provenBy, ...about } = account;
  if (!banned && confirmed) return true;
  const { auth } = createServiceClient(context.env);
  const foreign = !confirmed && provenBy === "mailbox";
  const { error } = await auth.admin.updateUserById(userId, {
    ban_duration: "none",
    email_confirm: true,
    ...(foreign ? { password: randomBytes(32).toString("base64url") } : {}),
  });
  await recordRecovery(context, {
    ...about,
    userId,
    kind: "unban_attempt",
    outcome: error ? "failed" : banned ? "unbanned" : "confirmed",
  });
  return !error;
}

/** Makes the account of an email that has none, confirmed. @returns its id; null where that failed */
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

/** Adds to the log of recoveries. */
export async function recordRecovery(
  { env, requestId, clientAddress, userAgent }: AppLoadContext,
  event: { kind: string; outcome: string; email: string; overrideId?: string; userId?: string },
): Promise<void> {
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_recovery_event", { event: { ...event, ip: clientAddress, userAgent, requestId } });
  if (error)
    console.error(`error request=${requestId} the ${event.kind} of a recovery was not recorded: ${error.code}`);
}
