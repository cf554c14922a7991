import { formatDateTime, monthText } from "../../http/date-text.ts";
import { quoteText } from "../../mail/inert-text.ts";
import type { Mail, MailSite } from "../../mail/mail-body.ts";
import { type MailParts, mailText } from "../../mail/mail-text.ts";
import { formatUsd } from "../../ui/format-amount.ts";

/**
 * An alert that a budget's spend has reached a threshold, as returned by `ai.sweep_budget_alerts`. Amounts are exact
 * strings in USD.
 */
export interface BudgetAlert {
  scope: "workspace" | "app" | "key" | "member" | "label";
  subjectId: string;
  /** The name of the budget's subject. Null if the subject was deleted. */
  subject: string | null;
  workspaceId: string;
  workspace: string;
  /** The first day of the UTC month that the alert is about. */
  month: string;
  /** When the next month begins, RFC 3339. */
  endsAt: string;
  threshold: 50 | 80 | 100;
  /** Whether the budget can refuse requests. A label's budget refuses only requests by keys with the label. */
  enforced: boolean;
  limitUsd: string;
  /** Whether requests are refused because too little of the budget is left. `threshold` is 100 in that case. */
  refusing: boolean;
  /** Null, like reservedUsd and leftUsd, if the workspace hides provider costs. */
  spentUsd: string | null;
  /** The maximum cost of requests in progress. */
  reservedUsd: string | null;
  leftUsd: string | null;
}

/**
 * Returns the email for a budget alert. The email states the budget, the amount used and the consequence, and links to
 * the budgets page.
 */
export function budgetAlertMail(
  alert: BudgetAlert,
  { origin }: Pick<MailSite, "origin" | "product">,
): Omit<Mail, "to"> {
  const { limitUsd, spentUsd, reservedUsd, leftUsd, refusing, month, endsAt, workspaceId } = alert;
  const hasReservation = reservedUsd !== null && Number(reservedUsd) > 0;
  const { subject, news, consequence } = describeAlert(alert);
  const parts: MailParts = {
    news: [news],
    facts: [
      ["Workspace", quoteText(alert.workspace)],
      ["Budget", `${formatUsd(limitUsd)} for ${monthText(month)}`],
      ...(spentUsd === null ? [] : [["Spent", formatUsd(spentUsd)] as const]),
      ...(refusing && hasReservation ? [["Held by requests in progress", formatUsd(reservedUsd)] as const] : []),
      ...(refusing && leftUsd !== null ? [["Left", formatUsd(leftUsd)] as const] : []),
    ],
    action: { label: "View budgets", url: `${origin}/workspaces/${workspaceId}/ai/budgets` },
    more: [
      alert.enforced || refusing
        ? `${consequence} until the budget resets on ${formatDateTime(endsAt)} or someone raises it.`
        : "Requests aren’t refused: no key carries this label, so its budget only warns.",
    ],
    footer: [
      `You’re getting this email because you own the workspace, or your role manages its AI policy${alert.scope === "key" ? " or its keys" : ""}.`,
    ],
  };
  return { subject, text: mailText(parts) };
}

function describeAlert(alert: BudgetAlert) {
  const { threshold, refusing, scope } = alert;
  const owner = subjectWords(alert);
  // A label's budget does not refuse requests by keys without the label.
  const requests = scope === "label" ? "Requests by keys with this label" : "Its requests";
  const request = scope === "label" ? "A request by a key with this label" : "A request";
  const a = scope === "app" ? "an" : "a";
  const single = `${request} is refused with 402 budget_exceeded if its maximum cost exceeds what’s left,`;
  if (refusing) {
    return {
      subject: `Requests are refused: too little is left of ${a} ${scope}’s monthly budget`,
      news: `Requests are being refused because too little is left of the monthly budget of ${owner}.`,
      consequence: single,
    };
  }
  const subject = `The monthly budget of ${a} ${scope} is ${threshold}% used`;
  if (threshold === 100) {
    const consequence = `${requests} are refused with 402 budget_exceeded`;
    return { subject, news: `The monthly budget of ${owner} is used up.`, consequence };
  }
  const news = `At least ${threshold}% of the monthly budget of ${owner} is used.`;
  return { subject, news, consequence: single };
}

function subjectWords({ scope, subject, workspace }: BudgetAlert): string {
  if (scope === "workspace") return `the workspace ${quoteText(workspace)}`;
  return subject === null ? `a deleted ${scope}` : `the ${scope} ${quoteText(subject)}`;
}
