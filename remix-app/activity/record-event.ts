import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { callFunction, createServiceClient } from "../supabase/data-api.ts";
import { deviceName } from "./device-name.ts";
import type { EventName } from "./event-kinds.ts";

export interface SecurityEvent {
  /** The account, from a verified session and never from user input. */
  userId: string;
  kind: EventName;
  /** Method, such as `password`, `passkey`, `totp` or `oauth:google`. */
  method?: string;
  /** The event's session, if it isn't the request's. */
  sessionId?: string;
  /** The names or providers that the event concerns, shown to the owner. Never a secret or a code. */
  details?: Record<string, string>;
}

/**
 * Adds an event to an account's activity, with the request's address and device. If the database has already recorded
 * the event, completes that record instead. The database queues the emails about the event. Never throws, because the
 * change has already happened: a failure is logged, and emails that are already queued are sent without the request's
 * details.
 */
export async function recordEvent(context: AppLoadContext, event: SecurityEvent): Promise<void> {
  const { env, requestId } = context;
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_security_event", { event: describeEvent(context, event) });
  if (error) logError(`the event ${event.kind} was not recorded: ${error.code}`, { requestId });
}

/** Converts an event to the argument of `private.record_security_event`. */
export function describeEvent({ clientAddress, place, userAgent, session }: AppLoadContext, event: SecurityEvent) {
  const { userId, kind, method, details = {} } = event;
  const own =
    session.auth.status === "authenticated" && session.auth.claims.sub === userId ? session.auth.claims : null;
  return {
    userId,
    kind,
    method,
    sessionId: event.sessionId ?? own?.session_id,
    ip: clientAddress,
    userAgent,
    device: deviceName(userAgent),
    place,
    details,
  };
}

/**
 * Announces an authenticator or passkey that this request is about to add at the identity backend, after step-up.
 * Without an announcement, the database refuses to add it if the account has a second factor, and otherwise marks it
 * unconfirmed.
 * @param options.target an authenticator's id, or a passkey's credential id in hexadecimal
 * @throws Response 503 UNAVAILABLE if the database did not answer; nothing was added
 */
export async function announceAddition(
  context: AppLoadContext,
  { userId, target }: { userId: string; target: string },
): Promise<void> {
  const args = { subject_id: userId, target };
  await callFunction(context, { name: "private.announce_addition", args, schema: z.null() });
}
