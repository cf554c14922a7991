import { logWarning } from "#shared/log.ts";
import type { Env } from "../config/env.server.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { Mail } from "./mail-body.ts";
import { deliverMail } from "./transport.ts";

/**
 * Sends an email without making the caller wait. It stays in the database until it is sent, and failed attempts are
 * retried. Never throws: failures are logged, without the address. Don't use it for emails with a secret, which must
 * not be stored; use `deliverMail` for those.
 */
export async function sendMail(env: Env, mail: Mail): Promise<void> {
  if (!env.SMTP_URL) {
    logWarning(`mail "${mail.subject}" was not sent: SMTP_URL is not set`);
    return;
  }
  const mails = createServiceClient(env).schema("private").from("outgoing_mails");
  const { data, error } = await mails
    .insert({ recipient: mail.to, subject: mail.subject, body: mail.text })
    .select("id")
    .single<{ id: string }>();
  if (error) logWarning(`mail "${mail.subject}" could not be kept for a retry: ${error.code}`);
  void attemptDelivery(env, { mail, id: data?.id });
}

async function attemptDelivery(env: Env, { mail, id }: { mail: Mail; id: string | undefined }): Promise<void> {
  const failure = await deliverMail(env, { mail, ...(id ? { id } : {}) });
  if (failure !== null) {
    logWarning(`was not sent${id ? ", and is tried again" : ""}: ${failure}`, { mail: id });
    return;
  }
  if (id) await deleteSentMail(env, id);
}

/** Deletes a sent email from the outbox. */
export async function deleteSentMail(env: Env, id: string): Promise<void> {
  const { error } = await createServiceClient(env).schema("private").from("outgoing_mails").delete().eq("id", id);
  if (error) logWarning(`was sent, and may be sent again: ${error.code}`, { mail: id });
}
