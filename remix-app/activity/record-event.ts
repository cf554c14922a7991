import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { sendKeptMail, sendMail } from "../mail/send-mail.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { deviceName } from "./device-name.ts";
import { type EventName, noticeOf } from "./event-kinds.ts";
import { newSignInMail, noticeMail } from "./notice-mail.ts";

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
  /** Who is told besides the owner's address of now, as the address that an account had before. */
  alsoTell?: string;
}

const answer = z.object({ createdAt: z.coerce.date(), email: z.string().nullable(), newPlace: z.boolean() }).nullable();

/**
 * Adds to an account's log where the request came from and by which device, and mails the owner where the kind is a
 * change that matters or a sign-in from a new place. It happened already, so this never fails: what could not be
 * recorded is logged.
 */
export async function recordEvent(context: AppLoadContext, event: SecurityEvent): Promise<void> {
  const { env, requestId } = context;
  const { kind, method, details = {}, alsoTell } = event;
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_security_event", { event: rowOf(context, event) });
  const recorded = answer.safeParse(data);
  if (error || !recorded.success) {
    console.error(`error request=${requestId} the event ${kind} was not recorded: ${error?.code ?? "answer"}`);
    return;
  }
  if (!recorded.data) return;
  const { createdAt, email, newPlace } = recorded.data;
  const place = placeOf(context, createdAt);
  const notice = noticeOf(kind);
  for (const to of new Set([email, alsoTell])) {
    if (to && notice) await sendMail(env, noticeMail({ to, ...notice, ...place, details }));
    else if (to && newPlace) await sendMail(env, newSignInMail({ to, method: method ?? "", ...place }));
  }
}

/** What `private.notify_owner` answers of a mail that it kept; both are null where there was none to send. */
export const toldOwner = z.object({ mailId: z.uuid().nullable(), recipient: z.string().nullable() });

/**
 * An event, and the mail about it, for a function of the database that records and keeps them with the change itself
 * (`private.notify_owner`): then the owner is told of what took effect, whatever becomes of the answer.
 * @returns its arguments, and what tries the mail once they were taken
 */
export function tellWithChange(context: AppLoadContext, event: SecurityEvent) {
  const { env } = context;
  const notice = noticeOf(event.kind);
  const { details = {} } = event;
  const mail = notice && noticeMail({ to: "", ...notice, ...placeOf(context, new Date()), details });
  if (mail && !env.SMTP_URL) console.error(`warning mail "${mail.subject}" is not sent: SMTP_URL is not set`);
  const kept = mail && env.SMTP_URL ? { subject: mail.subject, body: mail.text } : null;
  return {
    args: { event: rowOf(context, event), mail: kept },
    send({ mailId, recipient }: z.infer<typeof toldOwner>): void {
      if (mail && mailId && recipient) sendKeptMail(env, { id: mailId, mail: { ...mail, to: recipient } });
    },
  };
}

/** An event as the database takes it. */
function rowOf({ clientAddress, userAgent, session }: AppLoadContext, event: SecurityEvent) {
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

function placeOf({ userAgent, clientAddress, env }: AppLoadContext, when: Date) {
  return { when, device: deviceName(userAgent), address: clientAddress, origin: env.BASE_URL };
}
