import { quoted } from "../../mail/inert-text.ts";
import type { Mail } from "../../mail/mail-body.ts";
import { exactUsd } from "../../ui/format-amount.ts";

/** A threshold that a budget has crossed; the answer of `ai.sweep_budget_alerts`. Amounts are exact texts in USD. */
export interface BudgetAlert {
  scope: "workspace" | "app" | "key" | "member" | "label";
  subjectId: string;
  /** Null where it is gone. */
  subject: string | null;
  workspaceId: string;
  workspace: string;
  /** The first day of the UTC month that it is about. */
  month: string;
  /** When the next month begins, RFC 3339. */
  endsAt: string;
  threshold: 50 | 80 | 100;
  /** Whether calls can be refused: a label's budget refuses only calls of keys that carry the label. */
  enforced: boolean;
  limitUsd: string;
  /** Not all is spent, but what is left is too little for calls: they are refused. Then the threshold is 100. */
  refusing: boolean;
  /** This and the two below are null where the workspace hides what providers charge. */
  spentUsd: string | null;
  /** What calls under way may cost at most. */
  reservedUsd: string | null;
  leftUsd: string | null;
}

/** The mail about it: which budget, what of it is spent, what follows, and where to change it. */
export function budgetAlertMail(alert: BudgetAlert, { origin }: { origin: string }): Omit<Mail, "to"> {
  const { limitUsd, spentUsd, reservedUsd, leftUsd, refusing, month, endsAt, workspaceId } = alert;
  const whose = subjectWords(alert);
  const held = reservedUsd !== null && Number(reservedUsd) > 0;
  const facts = [
    `Workspace: ${quoted(alert.workspace)}`,
    `Budget: ${exactUsd(limitUsd)} for ${monthOf(month)}`,
    ...(spentUsd === null ? [] : [`Spent: ${exactUsd(spentUsd)}`]),
    ...(refusing && held ? [`Held by calls under way: ${exactUsd(reservedUsd)}`] : []),
    ...(refusing && leftUsd !== null ? [`Left: ${exactUsd(leftUsd)}`] : []),
  ];
  const { subject, news, consequence } = newsWords(alert, whose);
  return {
    subject,
    text: [
      news,
      facts.join("\n"),
      alert.enforced || refusing
        ? `${consequence} until the next month's budget begins on ${dayOf(endsAt)}, 00:00 UTC, or this one is raised.`
        : "Calls are not refused: no key carries this label, so its budget only warns.",
      `See and change budgets: ${origin}/workspaces/${workspaceId}/ai/budgets`,
      `You get this as an owner of the workspace, or because your role manages its AI policy${alert.scope === "key" ? " or its keys" : ""}.`,
    ].join("\n\n"),
  };
}

function newsWords({ threshold, refusing, scope }: BudgetAlert, whose: string) {
  // Other calls with the label continue.
  const calls = scope === "label" ? "Calls of keys with this label" : "Its calls";
  const call = scope === "label" ? "call of a key with this label" : "call";
  const budget = `the monthly budget of ${scope === "app" ? "an" : "a"} ${scope}`;
  if (refusing) {
    return {
      subject: `Calls are refused: ${budget} is used up`,
      news: `Calls are refused: too little is left of the monthly budget of ${whose}.`,
      consequence: `Each ${call} whose maximum cost is more than what is left is refused`,
    };
  }
  const subject = `${threshold}% of ${budget} is spent`;
  if (threshold === 100) {
    return { subject, news: `The monthly budget of ${whose} is spent.`, consequence: `${calls} are refused` };
  }
  return {
    subject,
    news: `At least ${threshold}% of the monthly budget of ${whose} is spent.`,
    consequence: `Calls continue. A ${call} whose maximum cost is more than what is left is refused`,
  };
}

function subjectWords({ scope, subject, workspace }: BudgetAlert): string {
  if (scope === "workspace") return `the workspace ${quoted(workspace)}`;
  return `the ${scope} ${subject === null ? "that is gone" : quoted(subject)}`;
}

function monthOf(day: string): string {
  return new Date(`${day}T00:00:00Z`).toLocaleString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
}

function dayOf(moment: string): string {
  return new Date(moment).toLocaleString("en-GB", { dateStyle: "long", timeZone: "UTC" });
}
