import { quoteText } from "../../mail/inert-text.ts";
import type { Mail, MailSite } from "../../mail/mail-body.ts";
import { type MailParts, mailText } from "../../mail/mail-text.ts";
import { formatCredits, formatExactCredits } from "../../ui/format-amount.ts";

/**
 * A balance that became low or empty, as returned by `ai.sweep_credit_alerts`. Amounts are exact strings in credits.
 */
export interface CreditAlert {
  accountId: string;
  /** A member pays for their own requests in all workspaces whose plan requires members to pay. */
  payer: "workspace" | "member";
  /** The workspace that the email links to: the paying workspace, or a workspace whose plan charges the member. */
  workspaceId: string;
  workspace: string;
  level: "low" | "empty";
  /** RFC 3339, to the microsecond. */
  crossedAt: string;
  balance: string;
  reserved: string;
  available: string;
  threshold: string;
}

/** Returns the email about a low or empty balance. It says what is left, what the consequence is, and what to do. */
export function creditAlertMail(
  alert: CreditAlert,
  { origin, product }: Pick<MailSite, "origin" | "product">,
): Omit<Mail, "to"> {
  const { payer, workspace, workspaceId, level, balance, reserved, available, threshold } = alert;
  const owned = payer === "workspace";
  const owner = owned ? `The workspace ${quoteText(workspace)}` : "Your account";
  const hasReservation = Number(reserved) > 0;
  const ask = `Ask an administrator of ${product} to add credits.`;
  const texts =
    level === "empty"
      ? {
          subject: owned ? "A workspace is out of credits" : "You’re out of credits",
          news: `${owner} is out of credits.`,
          consequence: `Requests that cost more than what is available are refused with 402 insufficient_credits. ${ask}`,
        }
      : {
          subject: owned ? "A workspace is low on credits" : "You’re low on credits",
          news: `${owner} has fewer than ${formatExactCredits(threshold)} credits left.`,
          consequence: `Once the credits are used up, requests are refused with 402 insufficient_credits. ${ask}`,
        };
  const parts: MailParts = {
    news: [texts.news],
    facts: [
      ["Balance", `${formatCredits(balance)} credits`],
      ...(hasReservation
        ? ([
            ["Held by requests in progress", `${formatCredits(reserved)} credits`],
            ["Available", `${formatCredits(available)} credits`],
          ] as const)
        : []),
    ],
    action: { label: "View credits", url: `${origin}/workspaces/${workspaceId}/ai/credits` },
    more: [texts.consequence],
    footer: [
      owned
        ? "You’re getting this email because you own the workspace, or your role manages its AI policy."
        : "You’re getting this email because you pay for your own requests.",
    ],
  };
  return { subject: texts.subject, text: mailText(parts) };
}
