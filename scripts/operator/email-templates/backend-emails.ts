import { backendMailLifetime } from "../../../remix-app/http/backend-mail-lifetime.ts";
import { type EmailBlock, emailHtml, escapeHtml, supportLine } from "../../../remix-app/mail/email-html.ts";

export interface EmailBrand {
  name: string;
  accent: string;
  support?: string | null;
}

/** An email of the identity backend: its template file in `supabase/templates`, and its subject. */
export interface BackendEmail {
  file: string;
  subject: string;
  html: string;
}

/** Names from the identity backend's settings (`GOTRUE_MAILER_TEMPLATES_<NAME>`). */
export const backendEmailNames = [
  "CONFIRMATION",
  "RECOVERY",
  "MAGIC_LINK",
  "INVITE",
  "EMAIL_CHANGE",
  "REAUTHENTICATION",
] as const;
export type BackendEmailName = (typeof backendEmailNames)[number];

interface Words {
  file: string;
  subject: string;
  news: string;
  /**
   * How the email works: a link to a page of ours that asks for confirmation before it verifies the link, or a code to
   * enter.
   */
  way: { label: string; type: string } | "code";
  more: string;
  footer: readonly [why: string, otherwise: string];
}

const linkExpiry = `This link expires in ${backendMailLifetime} and works once.`;
const codeExpiry = `This code expires in ${backendMailLifetime} and works once.`;

/**
 * Writes the identity backend's emails as Go html/template files. They contain nothing that a user typed, not even the
 * email address, since email clients turn addresses into links.
 */
export function backendEmails(brand: EmailBrand): Record<BackendEmailName, BackendEmail> {
  const words = wordsOf(brand.name);
  const entries = backendEmailNames.map((name) => [name, render(words[name], brand)]);
  return Object.fromEntries(entries) as Record<BackendEmailName, BackendEmail>;
}

function wordsOf(product: string): Record<BackendEmailName, Words> {
  return {
    CONFIRMATION: {
      file: "confirmation",
      subject: `Confirm your email for ${product}`,
      news: `Confirm your email address to finish creating your ${product} account.`,
      way: { label: "Confirm email", type: "signup" },
      more: linkExpiry,
      footer: [
        `You’re getting this email because someone signed up for ${product} with this address.`,
        "If it wasn’t you, ignore this email. The account can’t be used without this link.",
      ],
    },
    RECOVERY: {
      file: "recovery",
      subject: `Reset your ${product} password`,
      news: `Choose a new password for your ${product} account.`,
      way: { label: "Reset password", type: "recovery" },
      more: linkExpiry,
      footer: [
        `You’re getting this email because someone asked to reset the password of your ${product} account.`,
        "If it wasn’t you, ignore this email. Your password stays as it is.",
      ],
    },
    MAGIC_LINK: {
      file: "magic_link",
      subject: `Your ${product} sign-in code`,
      news: "Enter this code where you asked for it:",
      way: "code",
      more: `${codeExpiry} Only enter it on our sign-in page or in our app. We’ll never ask for it by phone, chat or email.`,
      footer: [
        `You’re getting this email because someone asked for a code to sign in to your ${product} account.`,
        "If it wasn’t you, ignore this email and don’t share the code.",
      ],
    },
    INVITE: {
      file: "invite",
      subject: `You’re invited to ${product}`,
      news: `You’ve been invited to create an account on ${product}.`,
      way: { label: "Accept invitation", type: "invite" },
      more: linkExpiry,
      footer: [
        `You’re getting this email because someone invited this address to ${product}.`,
        "If you don’t know who invited you, ignore this email. No account is created until you accept.",
      ],
    },
    EMAIL_CHANGE: {
      file: "email_change",
      subject: `Confirm your email change for ${product}`,
      news: `Confirm the new email address of your ${product} account. The next page shows both addresses before anything changes.`,
      way: { label: "Review email change", type: "email_change" },
      more: linkExpiry,
      footer: [
        `You’re getting this email because someone asked to change the email address of a ${product} account.`,
        "If it wasn’t you, don’t confirm it. If you have an account, change your password: someone else may know it.",
      ],
    },
    REAUTHENTICATION: {
      file: "reauthentication",
      subject: `Your ${product} confirmation code`,
      news: "Enter this code to confirm it’s you:",
      way: "code",
      more: codeExpiry,
      footer: [
        `You’re getting this email because a change to your ${product} account needs confirming.`,
        "If it wasn’t you, change your password: someone else may know it.",
      ],
    },
  };
}

function render({ file, subject, news, way, more, footer }: Words, brand: EmailBrand): BackendEmail {
  const blocks: EmailBlock[] = [
    { kind: "paragraph", html: escapeHtml(news) },
    way === "code"
      ? { kind: "code", code: "{{ .Token }}" }
      : { kind: "button", label: escapeHtml(way.label), href: confirmLink(way.type) },
    { kind: "paragraph", html: escapeHtml(more) },
  ];
  const html = emailHtml({
    brand: { name: escapeHtml(brand.name), accent: brand.accent },
    heading: escapeHtml(subject),
    blocks,
    footer: [...footer.map(escapeHtml), ...(brand.support ? [supportLine(brand.support, brand).html] : [])],
  });
  return { file, subject, html };
}

function confirmLink(type: string): string {
  const address = `{{ .SiteURL }}/auth/confirm?token_hash={{ .TokenHash }}&type=${type}&next={{ .RedirectTo }}`;
  return escapeHtml(address);
}
