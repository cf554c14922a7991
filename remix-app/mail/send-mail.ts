import type { Env } from "../config/env.server.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import type { Mail } from "./mail-body.ts";
import { deliverMail } from "./transport.ts";

/**
 * Sends a mail of ours without making anybody wait for it. It is kept in the database until it has gone out, and tried
 * again where it did not. It never fails: what went wrong is logged, without the address. Not for mails that carry a
 * secret, which nothing may keep: those go by `deliverMail`.
 */
export async function sendMail(env: Env, mail: Mail): Promise<void> {
  if (!env.SMTP_URL) {
    console.error(`warning mail "${mail.subject}" was not sent: SMTP_URL is not set`);
    return;
  }
  const mails = createServiceClient(env).schema("private").from("outgoing_mails");
  const { data, error } = await mails
    .insert({ recipient: mail.to, subject: mail.subject, body: mail.text })
    .select("id")
    .single<{ id: string }>();
  if (error) console.error(`warning mail "${mail.subject}" could not be kept for a retry: ${error.code}`);
  void attempt(env, { mail, id: data?.id });
}

async function attempt(env: Env, { mail, id }: { mail: Mail; id: string | undefined }): Promise<void> {
  const failure = await deliverMail(env, { mail, ...(id ? { id } : {}) });
  if (failure !== null) {
    console.error(`warning mail=${id} was not sent${id ? ", and is tried again" : ""}: ${failure}`);
    return;
  }
  if (id) await forgetMail(env, id);
}

/** Takes a mail that has gone out from those that have not. */
export async function forgetMail(env: Env, id: string): Promise<void> {
  const { error } = await createServiceClient(env).schema("private").from("outgoing_mails").delete().eq("id", id);
  if (error) console.error(`warning mail=${id} was sent, and may be sent again: ${error.code}`);
}
