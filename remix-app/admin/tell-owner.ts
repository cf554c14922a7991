import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { type EventName, noticeOf } from "../activity/event-kinds.ts";
import { officeNoticeMail } from "../activity/notice-mail.ts";
import { sendMail } from "../mail/send-mail.ts";
import { createServiceClient } from "../supabase/data-api.ts";

const answer = z.object({ createdAt: z.coerce.date(), email: z.string().nullable() }).nullable();

/**
 * Adds what an admin did to the account's own log, and mails its owner. Where the admin sat and by which device is not
 * the owner's to know. It happened already, so this never fails: what could not be recorded is logged.
 */
export async function tellOwner(
  { env, requestId }: AppLoadContext,
  { userId, kind }: { userId: string; kind: EventName },
): Promise<void> {
  const { data, error } = await createServiceClient(env)
    .schema("private")
    .rpc("record_security_event", { event: { userId, kind } });
  const recorded = answer.safeParse(data);
  if (error || !recorded.success) {
    console.error(`error request=${requestId} the event ${kind} was not recorded: ${error?.code ?? "answer"}`);
    return;
  }
  const notice = noticeOf(kind);
  if (!recorded.data?.email || !notice) return;
  const { email: to, createdAt: when } = recorded.data;
  await sendMail(env, officeNoticeMail({ to, ...notice, when, origin: env.BASE_URL }));
}
