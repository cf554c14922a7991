import { formatDateTime } from "../http/date-text.ts";
import { quoteText } from "../mail/inert-text.ts";
import type { Mail, MailSite } from "../mail/mail-body.ts";
import { type MailParts, mailText } from "../mail/mail-text.ts";
import { eventKind, eventLabel } from "./event-kinds.ts";
import { detailText, methodLabel } from "./method-label.ts";

/** The parts of an event that its email needs. */
export interface NoticeEvent {
  kind: string;
  method: string | null;
  device: string;
  /** The result of `deviceName`. Contains only words from a fixed list, so it is safe in the email's subject. */
  browser: string;
  address: string;
  details: Record<string, string>;
  when: Date;
  /** Whether the sign-in method was added outside our pages and is not yet confirmed by the owner. */
  unconfirmed: boolean;
}

type Site = Pick<MailSite, "origin" | "product">;

/** Writes the email about an event to the account's owner: what happened, when, from where, and what to do. */
export function eventMail(event: NoticeEvent, { to, site }: { to: string; site: Site }): Mail {
  const { origin, product } = site;
  const { kind, device, address, details, when } = event;
  const { notice, byAdmin } = eventKind(kind) ?? {};
  const texts: { subject: string; what: string; unconfirmed?: string } =
    kind === "sign_in" ? signInNotice(event) : (notice ?? { ...defaultTexts, what: `${eventLabel(kind)}.` });
  const withProduct = (text: string) => text.replaceAll("{product}", product);
  const parts: MailParts = {
    news: [
      withProduct(event.unconfirmed ? (texts.unconfirmed ?? texts.what) : texts.what),
      ...(event.unconfirmed ? ["It was added by an app, without confirming your identity."] : []),
    ],
    facts: [
      ...(kind === "sign_in" ? [["Method", methodLabel(event.method ?? "")] as const] : []),
      ...Object.entries(details)
        .filter(([name]) => !byAdmin || adminDetails.includes(name))
        .map(([name, value]) => [capitalize(name), quoteText(detailText(name, value))] as const),
      ["When", formatDateTime(when)],
      ...(byAdmin
        ? []
        : ([
            ["Device", quoteText(device)],
            ["IP address", quoteText(address)],
          ] as const)),
    ],
    action: { label: "Review security settings", url: `${origin}/settings/security` },
    more: byAdmin
      ? [`If you didn’t ask for this, contact an administrator of ${product}.`]
      : [
          event.unconfirmed
            ? "If this was you, confirm it in your security settings."
            : "If this was you, you don’t need to do anything.",
          `If it wasn’t, someone else may have access to your account. Reset your password, which signs out every device: ${origin}/forgot-password`,
        ],
    footer: [`You’re getting this email to let you know about important activity in your ${product} account.`],
  };
  return { to, subject: withProduct(texts.subject), text: mailText(parts) };
}

/** The details of an administrator's act that the email contains: the reason and the times. */
const adminDetails: readonly string[] = ["reason", "until", "deletion"];

const defaultTexts = { subject: "Your {product} account was changed" };

function signInNotice({ browser }: Pick<NoticeEvent, "browser">) {
  return {
    subject: browser.startsWith("Unknown") ? "New sign-in to your {product} account" : `New sign-in from ${browser}`,
    what: "We noticed a new sign-in to your {product} account from a device or location you haven’t used before.",
  };
}

const capitalize = (word: string) => word.replace(/^./, (first) => first.toUpperCase());

/** Writes the email about a deleted account. It states the time, because the account's log is deleted too. */
export function accountDeletedMail({ to, when }: { to: string; when: Date }, { product }: Pick<Site, "product">): Mail {
  const parts: MailParts = {
    news: [
      `Your ${product} account and its data were permanently deleted on ${formatDateTime(when)}.`,
      "You can no longer sign in to it.",
    ],
    footer: [
      `You’re getting this email because your ${product} account was deleted.`,
      `If you didn’t delete it, contact an administrator of ${product}.`,
    ],
  };
  return { to, subject: `Your ${product} account was deleted`, text: mailText(parts) };
}
