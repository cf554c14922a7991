import type { AppLoadContext } from "@remix-run/server-runtime";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { deviceName } from "./device-name.ts";
import type { EventName } from "./event-kinds.ts";

export interface SecurityEvent {
  /** Whose account; from a verified session, never from what a visitor sent. */
  userId: string;
  kind: EventName;
  /** By which method, as `password`, `passkey`, `totp` or `oauth:google`. */
  method?: string;
  /** The session that it belongs to, where that is not the one of the request. */
  sessionId?: string;
  /** What it concerned, for the owner to read: a name, a provider. Never a secret or a code. */
  details?: Record<string, string>;
}

/**
 * Adds an event to an account's activity with the request's address and device, or describes the event that the
 * database recorded with the change itself. The database queues the mails about it. The change has happened, so this
 * never fails: what could not be recorded is logged, and queued mails go out without our description.
 */
export async function recordEvent(context: AppLoadContext, event: SecurityEvent): Promise<void> {
  const { env, requestId } = context;
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_security_event", { event: describedEvent(context, event) });
  if (error) console.error(`error request=${requestId} the event ${event.kind} was not recorded: ${error.code}`);
}

/** An event as the database takes it (`private.record_security_event`). */
export function describedEvent({ clientAddress, place, userAgent, session }: AppLoadContext, event: SecurityEvent) {
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
 * Announces an addition that this request is about to make at the identity backend, after step-up. The database refuses
 * an unannounced addition if the account has a second factor, and marks it unconfirmed otherwise.
 * @param options.target an authenticator's id, or a passkey's credential id in hexadecimal
 * @throws Response 503 UNAVAILABLE where the database did not answer; nothing was added
 */
export async function announceAddition(
  { env, requestId }: AppLoadContext,
  { userId, target }: { userId: string; target: string },
): Promise<void> {
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("announce_addition", { subject_id: userId, target });
  if (!error) return;
  console.error(`error request=${requestId} an addition was not announced: ${error.code || "no answer"}`);
  throw problem("UNAVAILABLE", { requestId });
}
