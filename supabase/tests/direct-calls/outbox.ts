import { sendDueMails } from "../../../remix-app/schedule/send-due-mails.ts";
import { mailEnv } from "../../../scripts/test/mail-env.ts";
import { query } from "../../../scripts/test/people.ts";

const sweepers = 5;
const sweepLimitMs = 20_000;

/** Makes the unclaimed emails to the given address due, and runs several senders concurrently. */
export async function sweep(email: string): Promise<void> {
  await query(
    `update private.outgoing_mails set next_attempt_at = now()
     where recipient = $1 and next_attempt_at <= created_at + interval '15 seconds'`,
    [email],
  );
  const run = () => sendDueMails(mailEnv).run(AbortSignal.timeout(sweepLimitMs));
  await Promise.all(Array.from({ length: sweepers }, run));
}
