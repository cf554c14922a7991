import { createTransport, type Transporter } from "nodemailer";
import type { Env } from "../config/env.server.ts";
import { type Mail, type MailSettings, mailBody, mailSite } from "./mail-body.ts";

/** Timeouts of one delivery. A slow delivery delays only its own retry. */
const connectTimeoutMs = 5_000;
const answerTimeoutMs = 10_000;

const transports = new Map<string, Transporter>();

/**
 * Sends one email now. Stores nothing, so emails with a secret (a code, a link) are sent this way.
 * @param options.id identifies the email, so that mailboxes recognize a duplicate
 * @returns why it was not sent; null if it was
 */
export async function deliverMail(
  env: MailSettings & Pick<Env, "SMTP_URL" | "MAIL_FROM">,
  { mail, id = crypto.randomUUID() }: { mail: Mail; id?: string },
): Promise<string | null> {
  const { SMTP_URL, MAIL_FROM } = env;
  if (!SMTP_URL || !MAIL_FROM) return "SMTP_URL is not set";
  try {
    await transportOf(SMTP_URL).sendMail({
      from: MAIL_FROM,
      // An object, so that an address is never read as a list.
      to: { name: "", address: mail.to },
      subject: mail.subject,
      ...mailBody(mail, mailSite(env)),
      messageId: `<${id}@${MAIL_FROM.replace(/^.*@|>$/g, "")}>`,
    });
    return null;
  } catch (error) {
    // The server's own text may name the recipient. The error's code is enough for the log.
    return error instanceof Error && "code" in error ? String(error.code) : "unknown failure";
  }
}

function transportOf(url: string): Transporter {
  const cached = transports.get(url);
  if (cached) return cached;
  const transport = createTransport({
    url,
    connectionTimeout: connectTimeoutMs,
    greetingTimeout: connectTimeoutMs,
    socketTimeout: answerTimeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  transports.set(url, transport);
  return transport;
}
