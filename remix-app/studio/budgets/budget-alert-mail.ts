import { formatDateTime, formatDay, monthText } from "../../http/date-text.ts";
import { quoteText } from "../../mail/inert-text.ts";
import type { Mail, MailSite } from "../../mail/mail-body.ts";
import { type MailParts, mailText } from "../../mail/mail-text.ts";
import { countOf, formatCount, formatUsd } from "../../ui/format-amount.ts";

const periodNames = { day: "daily", week: "weekly", month: "monthly", total: "total" } as const;

interface AlertFacts {
  subjectId: string;
  /** The name of the budget's subject. Null if the subject was deleted. */
  subject: string | null;
  workspaceId: string;
  workspace: string;
  /** The IANA time zone in which the budget's windows begin. */
  timeZone: string;
  /** The local date on which the window began. Not a date if the budget has no windows. */
  month: string;
  /** When the next window begins, RFC 3339. Null if the budget has no windows. */
  endsAt: string | null;
  /** The percentage of the limit that was reached. */
  threshold: number;
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

interface WindowAlert extends AlertFacts {
  scope: "workspace" | "app" | "key" | "member" | "label";
  period: keyof typeof periodNames;
}

/** An alert that a limit of one task refuses its calls. */
interface EnvelopeAlert extends AlertFacts {
  scope: "envelope";
  period: "total";
  /** The name of the key whose calls the envelope holds, or of the person. */
  owner: string | null;
  maxCalls: number | null;
  calls: number;
}

/**
 * An alert that a budget's spend has reached a threshold, as returned by `ai.sweep_budget_alerts`. Amounts are exact
 * strings in USD.
 */
export type BudgetAlert = WindowAlert | EnvelopeAlert;

/**
 * Returns the email for a budget alert. The email states the budget, the amount used and the consequence, and links to
 * the page where the budget can be raised.
 */
export function budgetAlertMail(
  alert: BudgetAlert,
  { origin }: Pick<MailSite, "origin" | "product">,
): Omit<Mail, "to"> {
  if (alert.scope === "envelope") return envelopeAlertMail(alert, origin);
  const { limitUsd, spentUsd, reservedUsd, leftUsd, refusing, endsAt, workspaceId } = alert;
  const hasReservation = reservedUsd !== null && Number(reservedUsd) > 0;
  const { subject, news, consequence } = describeAlert(alert);
  const raise = endsAt === null ? "" : `the budget resets on ${formatDateTime(endsAt)} or `;
  const parts: MailParts = {
    news: [news],
    facts: [
      ["Workspace", quoteText(alert.workspace)],
      ["Budget", `${formatUsd(limitUsd)} ${windowWords(alert)}`],
      ...(spentUsd === null ? [] : [["Spent", formatUsd(spentUsd)] as const]),
      ...(refusing && hasReservation ? [["Held by requests in progress", formatUsd(reservedUsd)] as const] : []),
      ...(refusing && leftUsd !== null ? [["Left", formatUsd(leftUsd)] as const] : []),
    ],
    action: { label: "View budgets", url: `${origin}/workspaces/${workspaceId}/ai/budgets` },
    more: [
      alert.enforced || refusing
        ? `${consequence} until ${raise}someone raises it.`
        : "Requests aren’t refused: no key carries this label, so its budget only warns.",
    ],
    footer: [
      `You’re getting this email because you own the workspace, or your role manages its AI policy${alert.scope === "key" ? " or its keys" : ""}.`,
    ],
  };
  return { subject, text: mailText(parts) };
}

function describeAlert(alert: WindowAlert) {
  const { threshold, refusing, scope } = alert;
  const owner = subjectWords(alert);
  const budget = `${periodNames[alert.period]} budget`;
  // A label's budget does not refuse requests by keys without the label.
  const requests = scope === "label" ? "Requests by keys with this label" : "Its requests";
  const request = scope === "label" ? "A request by a key with this label" : "A request";
  const a = scope === "app" ? "an" : "a";
  const single = `${request} is refused with 402 budget_exceeded if its maximum cost exceeds what’s left,`;
  if (refusing) {
    return {
      subject: `Requests are refused: too little is left of ${a} ${scope}’s ${budget}`,
      news: `Requests are being refused because too little is left of the ${budget} of ${owner}.`,
      consequence: single,
    };
  }
  const subject = `The ${budget} of ${a} ${scope} is ${threshold}% used`;
  if (threshold === 100) {
    const consequence = `${requests} are refused with 402 budget_exceeded`;
    return { subject, news: `The ${budget} of ${owner} is used up.`, consequence };
  }
  const news = `At least ${threshold}% of the ${budget} of ${owner} is used.`;
  return { subject, news, consequence: single };
}

/** Returns when a budget counts, such as "for November 2026" or "today, 30 Nov 2026 (Europe/Berlin)". */
function windowWords({ period, month, timeZone }: WindowAlert): string {
  switch (period) {
    case "day":
      return `today, ${formatDay(month)} (${timeZone})`;
    case "week":
      return `this week, from ${formatDay(month)} (${timeZone})`;
    case "month":
      return `for ${monthText(month)}${timeZone === "UTC" ? "" : ` (${timeZone})`}`;
    case "total":
      return "in total";
  }
}

function subjectWords({ scope, subject, workspace }: WindowAlert): string {
  if (scope === "workspace") return `the workspace ${quoteText(workspace)}`;
  return subject === null ? `a deleted ${scope}` : `the ${scope} ${quoteText(subject)}`;
}

function envelopeAlertMail(alert: EnvelopeAlert, origin: string): Omit<Mail, "to"> {
  const { owner, subject, maxCalls, calls, spentUsd, leftUsd } = alert;
  const limits = [formatUsd(alert.limitUsd), ...(maxCalls === null ? [] : [countOf(maxCalls, "request")])];
  const limit = maxCalls !== null && calls >= maxCalls ? countOf(maxCalls, "request") : formatUsd(alert.limitUsd);
  const end = `is waiting for a decision: its limit of ${limit} is used up`;
  const parts: MailParts = {
    news: [`A task of ${owner === null ? "a deleted key" : `“${quoteText(owner)}”`} ${end}.`],
    facts: [
      ["Workspace", quoteText(alert.workspace)],
      ...(subject === null || subject === owner ? [] : [["Label", quoteText(subject)] as const]),
      ["Limit", limits.join(", ")],
      ...(spentUsd === null ? [] : [["Spent", formatUsd(spentUsd)] as const]),
      ...(leftUsd === null ? [] : [["Left", formatUsd(leftUsd)] as const]),
      ...(maxCalls === null ? [] : [["Requests", formatCount(calls)] as const]),
    ],
    action: {
      label: "Raise the limit or stop the task",
      url: `${origin}/workspaces/${alert.workspaceId}/ai/envelopes/${alert.subjectId}`,
    },
    more: ["Requests that no longer fit are refused with 402 envelope_exhausted until you raise the limit."],
    footer: [
      "You’re getting this email because the task is yours or uses your key, or because you manage the workspace’s keys or AI policy.",
    ],
  };
  return { subject: `A task ${end}`, text: mailText(parts) };
}
