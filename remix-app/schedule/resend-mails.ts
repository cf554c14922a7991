import type { Env } from "../config/env.server.ts";
import { forgetMail } from "../mail/send-mail.ts";
import { deliverMail } from "../mail/transport.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { ScheduledTask } from "./schedule.ts";

const resendIntervalMs = 30_000;
const mailsAtOnce = 20;

interface ClaimedMail {
  id: string;
  recipient: string;
  subject: string;
  body: string;
  attempts: number;
}

/** Tries again the mails that did not go out; each is taken by one server at a time. */
export function resendMails(env: Env): ScheduledTask {
  return {
    name: "resend-mails",
    intervalMs: resendIntervalMs,
    async run(signal) {
      const { data, error } = await createServiceClient(env)
        .schema("private")
        .rpc("claim_outgoing_mails", { max_mails: mailsAtOnce })
        .abortSignal(signal);
      if (error) throw new Error(`${error.code} ${error.message}`);
      for (const { id, recipient, subject, body, attempts } of data as ClaimedMail[]) {
        if (signal.aborted) return;
        const failure = await deliverMail(env, { mail: { to: recipient, subject, text: body }, id });
        if (failure === null) await forgetMail(env, id);
        else console.error(`warning mail=${id} was not sent in attempt ${attempts}: ${failure}`);
      }
    },
  };
}
