import { createTransport } from "nodemailer";
import type { Config } from "../config/config.ts";
import type { MailKind } from "../config/mail-texts.ts";
import { builtInBodies } from "./mail-bodies.ts";
import { quoteHtml, renderTemplate, type TemplateData } from "./mail-template.ts";

/** How long a fetched template is used before it is fetched again, and the wait after a failed fetch. */
const templateMaxAgeMs = 600_000;
const templateRetryMs = 10_000;
const templateTimeoutMs = 10_000;
const templateMaxBytes = 1_000_000;

export type Mail = { kind: MailKind; to: string; data: TemplateData };
export type Mailer = {
  /** @throws Error if the SMTP server does not accept the email */
  send: (mail: Mail) => Promise<void>;
  close: () => void;
};

/** Creates a mailer that sends over SMTP. Without SMTP_HOST, the mailer accepts every email and sends none. */
export function openMailer(config: Config, { log, clock }: { log: (line: string) => void; clock: () => Date }): Mailer {
  const bodies = templateSource(config, { log, clock });
  const render = async ({ kind, to, data }: Mail) => ({
    from: { name: config.GOTRUE_SMTP_SENDER_NAME, address: config.GOTRUE_SMTP_ADMIN_EMAIL },
    to: { name: "", address: to },
    subject: renderTemplate(config.mailTexts[kind].subject, data, (value) => value.replace(/[\r\n]/g, " ")),
    html: renderTemplate(await bodies(kind), data, quoteHtml),
  });
  if (!config.GOTRUE_SMTP_HOST) {
    return { send: async (mail) => void (await render(mail)), close: () => undefined };
  }
  const transport = createTransport({
    host: config.GOTRUE_SMTP_HOST,
    port: config.GOTRUE_SMTP_PORT,
    secure: config.GOTRUE_SMTP_PORT === 465,
    ...(config.GOTRUE_SMTP_USER ? { auth: { user: config.GOTRUE_SMTP_USER, pass: config.GOTRUE_SMTP_PASS } } : {}),
    connectionTimeout: 5_000,
    greetingTimeout: 5_000,
    socketTimeout: 8_000,
  });
  return { send: async (mail) => void (await transport.sendMail(await render(mail))), close: () => transport.close() };
}

/**
 * Returns a source of email bodies: the template from the configured URL if it can be fetched, otherwise the built-in
 * one.
 */
function templateSource(config: Config, { log, clock }: { log: (line: string) => void; clock: () => Date }) {
  const cache = new Map<MailKind, { template: string; untilMs: number }>();
  return async (kind: MailKind): Promise<string> => {
    const { bodyUrl } = config.mailTexts[kind];
    if (!bodyUrl) return builtInBodies[kind];
    const known = cache.get(kind);
    const nowMs = clock().getTime();
    if (known && nowMs < known.untilMs) return known.template;
    const url = bodyUrl.startsWith("http") ? bodyUrl : config.GOTRUE_SITE_URL + bodyUrl;
    try {
      const template = await fetchTemplate(url);
      renderTemplate(template, {}, quoteHtml);
      cache.set(kind, { template, untilMs: nowMs + templateMaxAgeMs });
      return template;
    } catch (error) {
      log(`mail template ${kind}: ${error instanceof Error ? error.message : "unusable"}; the last good one is used`);
      const template = known?.template ?? builtInBodies[kind];
      cache.set(kind, { template, untilMs: nowMs + templateRetryMs });
      return template;
    }
  };
}

async function fetchTemplate(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(templateTimeoutMs) });
  if (response.status !== 200) throw new Error(`GET ${url} answered ${response.status}`);
  const text = await response.text();
  if (text.length > templateMaxBytes) throw new Error(`${url} is larger than ${templateMaxBytes} bytes`);
  return text;
}
