import type { Mail, MailSite } from "../mail/mail-body.ts";
import { type MailParts, mailText } from "../mail/mail-text.ts";
import { credentialMinutes } from "./credential.ts";

/** Writes the recovery email, with a link and a code. Using either invalidates both. */
export function recoveryMail(
  { to, token, code }: { to: string; token: string; code: string },
  { origin, product }: Pick<MailSite, "origin" | "product">,
): Mail {
  const page = `${origin}/auth/recovery`;
  const parts: MailParts = {
    news: [`An administrator of ${product} sent you this email to help you get back into your account.`],
    action: { label: "Continue to your account", url: `${page}?${new URLSearchParams({ token })}` },
    code: { words: `Or enter your email and this code at ${page}:`, code },
    more: [`The link and the code expire in ${credentialMinutes} minutes and work once. We’ll never ask you for them.`],
    footer: [
      `You’re getting this email because someone asked an administrator of ${product} for help with your account.`,
      "If it wasn’t you, ignore this email and don’t share the code. No one can sign in without the code or the link.",
    ],
  };
  return { to, subject: `Get back into your ${product} account`, text: mailText(parts) };
}
