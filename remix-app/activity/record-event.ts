import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { createServiceClient } from "../identity/service-client.ts";
import { sendMail } from "../mail/send-mail.ts";
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
 * change of credentials or a sign-in from a new place. It happened already, so this never fails: what could not be
 * recorded is logged.
 */
export async function recordEvent(context: AppLoadContext, event: SecurityEvent): Promise<void> {
  const { env, requestId, clientAddress, userAgent, session } = context;
  const { userId, kind, method, details = {}, alsoTell } = event;
  const own =
    session.auth.status === "authenticated" && session.auth.claims.sub === userId ? session.auth.claims : null;
  const device = deviceName(userAgent);
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_security_event", {
      event: {
        userId,
        kind,
        method,
        sessionId: event.sessionId ?? own?.session_id,
        ip: clientAddress,
        userAgent,
        device,
        details,
      },
    });
  const recorded = answer.safeParse(data);
  if (error || !recorded.success) {
    console.error(`error request=${requestId} the event ${kind} was not recorded: ${error?.code ?? "answer"}`);
    return;
  }
  if (!recorded.data) return;
  const { createdAt, email, newPlace } = recorded.data;
  const place = { when: createdAt, device, address: clientAddress, origin: env.BASE_URL };
  const notice = noticeOf(kind);
  for (const to of new Set([email, alsoTell])) {
    if (to && notice) await sendMail(env, noticeMail({ to, ...notice, ...place, details }));
    else if (to && newPlace) await sendMail(env, newSignInMail({ to, method: method ?? "", ...place }));
  }
}
