import { quoted } from "../../mail/inert-text.ts";
import type { Mail } from "../../mail/mail-body.ts";

/** A balance that became low or empty; the answer of `ai.sweep_credit_alerts`. Amounts are exact texts in credits. */
export interface CreditAlert {
  accountId: string;
  /** A member pays for their own calls in all workspaces whose plan says so. */
  payer: "workspace" | "member";
  /** The workspace that pays, or one where the member pays. */
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

/** Writes the email about a low or empty balance: what is left, what follows and what to do. */
export function creditAlertMail(alert: CreditAlert, { origin }: { origin: string }): Omit<Mail, "to"> {
  const { payer, workspace, workspaceId, level, balance, reserved, available, threshold } = alert;
  const owned = payer === "workspace";
  const whose = owned ? `the workspace ${quoted(workspace)}` : "your account";
  const held = Number(reserved) > 0;
  const facts = [
    `Balance: ${balance} credits`,
    ...(held ? [`Held by calls in progress: ${reserved} credits`, `Available: ${available} credits`] : []),
  ];
  const ask = "Ask an administrator of the platform to add credits.";
  const words =
    level === "empty"
      ? {
          subject: owned ? "A workspace is out of credits" : "You are out of credits",
          news: `The credits of ${whose} are used up.`,
          consequence: `Requests that cost more than what is available are refused (402 insufficient_credits). ${ask}`,
        }
      : {
          subject: owned ? "The credits of a workspace are low" : "Your credits are low",
          news: `The credits of ${whose} are below ${threshold}.`,
          consequence: `Requests are answered until the credits are used up, then refused (402 insufficient_credits). ${ask}`,
        };
  return {
    subject: words.subject,
    text: [
      words.news,
      facts.join("\n"),
      words.consequence,
      `See the credits: ${origin}/workspaces/${workspaceId}/ai/credits`,
      owned
        ? "You get this email as an owner of the workspace, or because your role manages its AI policy."
        : "You get this email because you pay for your own requests.",
    ].join("\n\n"),
  };
}
