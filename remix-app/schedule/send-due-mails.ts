import { z } from "zod";
import { logWarning } from "#shared/log.ts";
import { deviceName } from "../activity/device-name.ts";
import { eventMail } from "../activity/notice-mail.ts";
import type { Env } from "../config/env.server.ts";
import { type Mail, type MailSite, mailSite } from "../mail/mail-body.ts";
import { deleteSentMail } from "../mail/send-mail.ts";
import { deliverMail } from "../mail/transport.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { ScheduledTask } from "./schedule.ts";

const intervalMs = 5_000;
/** The size of a batch. Its emails are sent concurrently, within the four minutes that a claim lasts. */
const maxMails = 10;

const claimedMails = z.array(
  z.object({
    id: z.uuid(),
    recipient: z.string(),
    subject: z.string().nullable(),
    body: z.string().nullable(),
    /** The event that the email is about. Set only if the email has no text yet. */
    event: z
      .object({
        kind: z.string(),
        method: z.string().nullable(),
        ip: z.string().nullable(),
        userAgent: z.string().nullable(),
        device: z.string().nullable(),
        details: z.record(z.string(), z.coerce.string()),
        createdAt: z.coerce.date(),
        unconfirmed: z.boolean(),
      })
      .nullable(),
    attempts: z.number(),
  }),
);

/**
 * Sends the emails that are due: emails that failed before, and emails about changes that were not made through our
 * pages. Only one server at a time claims an email.
 */
export function sendDueMails(env: Env): ScheduledTask {
  return {
    name: "send-due-mails",
    intervalMs,
    async run(signal) {
      // After a full batch, more may be waiting.
      while ((await sendBatch(env)) === maxMails && !signal.aborted);
    },
  };
}

/**
 * Sends what it claims even if the server is stopping: an email whose claim was abandoned would wait for its next attempt.
 * @returns how many emails were due, at most {@link maxMails}
 */
async function sendBatch(env: Env): Promise<number> {
  const database = createServiceClient(env).schema("private");
  const { data, error } = await database.rpc("claim_due_mails", { max_mails: maxMails });
  if (error) throw new Error(`${error.code} ${error.message}`);
  const mails = claimedMails.parse(data);
  await Promise.all(
    mails.map(async (mail) => {
      const { id, attempts } = mail;
      const failure = await deliverMail(env, { mail: buildMail(mail, mailSite(env)), id });
      if (failure === null) await deleteSentMail(env, id);
      else logWarning(`was not sent in attempt ${attempts}: ${failure}`, { mail: id });
    }),
  );
  return mails.length;
}

function buildMail(
  { recipient: to, subject, body, event }: z.infer<typeof claimedMails>[number],
  site: MailSite,
): Mail {
  if (!event) return { to, subject: subject ?? "", text: body ?? "" };
  const { createdAt: when, ip, userAgent, device, ...rest } = event;
  const browser = deviceName(userAgent ?? "");
  return eventMail({ ...rest, when, device: device ?? browser, browser, address: ip ?? "Unknown" }, { to, site });
}
