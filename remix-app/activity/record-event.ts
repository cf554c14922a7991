import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { sendKeptMail } from "../mail/send-mail.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { deviceName } from "./device-name.ts";
import type { EventName } from "./event-kinds.ts";
import { eventMail } from "./notice-mail.ts";

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

/** What `private.record_security_event` returns; null without such an account. */
export const recordedEvent = z
  .object({
    createdAt: z.coerce.date(),
    details: z.record(z.string(), z.string()),
    mails: z.array(z.object({ id: z.uuid(), recipient: z.string() })),
  })
  .nullable();

/**
 * Adds an event to an account's activity with the request's address and device, or describes the event that the
 * database recorded with the change itself, and sends its mails. The change has happened, so this never fails: what
 * could not be recorded is logged, and the mails that are queued go out without our description.
 */
export async function recordEvent(context: AppLoadContext, event: SecurityEvent): Promise<void> {
  const { env, requestId } = context;
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_security_event", { event: describedEvent(context, event) });
  const recorded = recordedEvent.safeParse(data);
  if (error || !recorded.success) {
    console.error(`error request=${requestId} the event ${event.kind} was not recorded: ${error?.code ?? "answer"}`);
    return;
  }
  sendEventMails(context, { event, recorded: recorded.data });
}

/** Sends the mails of a recorded event without making anybody wait. Those that fail are tried again from the queue. */
export function sendEventMails(
  { env, userAgent, clientAddress }: AppLoadContext,
  { event, recorded }: { event: SecurityEvent; recorded: z.infer<typeof recordedEvent> },
): void {
  for (const { id, recipient } of recorded?.mails ?? []) {
    const told = {
      kind: event.kind,
      method: event.method ?? null,
      device: deviceName(userAgent),
      address: clientAddress,
      details: recorded?.details ?? {},
      when: recorded?.createdAt ?? new Date(),
      unconfirmed: false,
    };
    sendKeptMail(env, { id, mail: eventMail(told, { to: recipient, origin: env.BASE_URL }) });
  }
}

/** An event as the database takes it (`private.record_security_event`). */
export function describedEvent({ clientAddress, userAgent, session }: AppLoadContext, event: SecurityEvent) {
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
    details,
  };
}

/**
 * Announces an addition that this request is about to make at the identity backend, after step-up. The database refuses
 * an addition that nobody announced where the account has a second factor, and marks it unconfirmed elsewhere.
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
