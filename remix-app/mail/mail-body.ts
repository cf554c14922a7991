import { brandOf } from "../config/brand.ts";
import type { Env } from "../config/env.server.ts";
import { type EmailBlock, emailHtml, emailLink, escapeHtml, supportLine } from "./email-html.ts";
import { breakLinks } from "./inert-text.ts";
import { type ParsedPart, parseMailText } from "./mail-text.ts";

export interface Mail {
  to: string;
  /**
   * One line in sentence case, also used as the heading. Contains no text that a user chose, because readers would take
   * that text for ours.
   */
  subject: string;
  /** Written by `mailText`. */
  text: string;
}

/** The sender of an email. */
export interface MailSite {
  /** Our own origin, such as `https://gatehouse.example`. */
  origin: string;
  product: string;
  accent: string;
  /** The `mailto:` or `https:` URL of support, if any. */
  support?: string | null;
}

/** The settings of the sender. */
export type MailSettings = Pick<Env, "BASE_URL" | "BRAND_NAME" | "BRAND_ACCENT" | "BRAND_MARK" | "SUPPORT_ADDRESS">;

/** Builds the sender of our emails from the settings. */
export function mailSite(env: MailSettings): MailSite {
  const { name, accent, support } = brandOf(env);
  return { origin: env.BASE_URL, product: name, accent, support };
}

const url = /(https?:\/\/[^\s<>"]*[^\s<>".,;:!?)])/;

/**
 * Renders an email as text and as HTML. Only URLs on our own origin and the address of support become links, in both
 * bodies.
 */
export function mailBody(
  { subject, text }: Pick<Mail, "subject" | "text">,
  { origin, product, accent, support }: MailSite,
): { text: string; html: string } {
  const isOwn = (piece: string) => piece.startsWith(`${origin}/`);
  const breakForeignLinks = (text: string) =>
    text
      .split(url)
      .map((piece) => (isOwn(piece) ? piece : breakLinks(piece)))
      .join("");
  const toHtml = (text: string) =>
    text
      .split(url)
      .map((piece) => (isOwn(piece) ? emailLink(escapeHtml(piece), { accent }) : escapeHtml(breakLinks(piece))))
      .join("")
      .replaceAll("\n", "<br>\n");
  const toBlock = (part: ParsedPart): EmailBlock => {
    if (part.kind === "paragraph") return { kind: "paragraph", html: toHtml(part.text) };
    if (part.kind === "code") return part;
    if (part.kind === "facts") {
      const facts = part.facts.map(({ label, value }) => ({ label: toHtml(label), value: toHtml(value) }));
      return { kind: "facts", facts };
    }
    const { label, url: href } = part;
    if (!isOwn(href)) return { kind: "paragraph", html: toHtml(`${label}:\n${href}`) };
    return { kind: "button", label: escapeHtml(breakLinks(label)), href: escapeHtml(href) };
  };
  const { parts, footer } = parseMailText(text);
  const help = support ? [supportLine(support, { accent })] : [];
  return {
    text: [breakForeignLinks(text), ...help.map((line) => line.text)].join("\n\n"),
    html: emailHtml({
      brand: { name: escapeHtml(product), accent },
      heading: escapeHtml(subject),
      blocks: parts.map(toBlock),
      footer: [...footer.map(toHtml), ...help.map((line) => line.html)],
    }),
  };
}
