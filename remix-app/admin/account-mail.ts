import type { Mail, MailSite } from "../mail/mail-body.ts";
import { mailText } from "../mail/mail-text.ts";

type Site = Pick<MailSite, "origin" | "product">;

/** Returns the link with which an invited person signs up. The id proves nothing: the sign-up confirms the email. */
export function accountInvitationLink(origin: string, id: string): string {
  return `${origin}/signup?${new URLSearchParams({ invitation: id })}`;
}

/** Writes the email that invites a person to create an account. */
export function accountInvitationMail({ to, id }: { to: string; id: string }, { origin, product }: Site): Mail {
  const text = mailText({
    news: [`You’re invited to create an account on ${product}.`],
    action: { label: "Create account", url: accountInvitationLink(origin, id) },
    more: ["This invitation expires in 14 days and only works for this email address."],
    footer: [
      `You’re getting this email because an administrator of ${product} invited this address.`,
      "If you don’t know why, ignore this email. Nothing happens until you create an account.",
    ],
  });
  return { to, subject: `You’re invited to ${product}`, text };
}

/** Writes the email about an account that was deleted after its waiting time. It is stored until then. */
export function accountRemovedMail({ to }: { to: string }, { product }: Pick<Site, "product">): Mail {
  const text = mailText({
    news: [
      `An administrator deleted your ${product} account and its data for good.`,
      "We announced this in an earlier email. You can no longer sign in to the account.",
    ],
    footer: [
      `You’re getting this email because your ${product} account was deleted.`,
      `If you think this is a mistake, contact an administrator of ${product}.`,
    ],
  });
  return { to, subject: `Your ${product} account was deleted`, text };
}
