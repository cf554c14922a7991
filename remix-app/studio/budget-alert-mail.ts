import type { Mail } from "../mail/mail-body.ts";

/** A threshold that a budget has crossed; the answer of `ai.sweep_budget_alerts`. Amounts are exact texts in USD. */
export interface BudgetAlert {
  scope: "workspace" | "app" | "key";
  subjectId: string;
  /** Null where it is gone. */
  subject: string | null;
  workspaceId: string;
  workspace: string;
  /** The first day of the UTC month that it is about. */
  month: string;
  /** When the budget starts anew, RFC 3339. */
  endsAt: string;
  threshold: 50 | 80 | 100;
  limitUsd: string;
  /** Null where the workspace hides what providers charge. */
  spentUsd: string | null;
}

/** The mail about it: which budget, what of it is spent, what follows, and where to change it. */
export function budgetAlertMail(alert: BudgetAlert, { origin }: { origin: string }): Omit<Mail, "to"> {
  const { threshold, limitUsd, spentUsd, month, endsAt, workspaceId } = alert;
  const whose = subjectWords(alert);
  const facts = [
    `Workspace: ${oneLine(alert.workspace)}`,
    `Budget: $${limitUsd} for ${monthOf(month)}`,
    ...(spentUsd === null ? [] : [`Spent: $${spentUsd}`]),
  ];
  const anew = `${dayOf(endsAt)}, 00:00 UTC`;
  const consequence =
    threshold === 100
      ? `Its calls are refused until the budget starts anew on ${anew}, or is raised.`
      : `Calls go on. One whose dearest possible cost is more than what is left is refused, until the budget starts anew on ${anew}, or is raised.`;
  return {
    subject: `${threshold}% of the monthly budget of ${whose} is spent`,
    text: [
      `${threshold === 100 ? "The" : `At least ${threshold}% of the`} monthly budget of ${whose} is spent.`,
      facts.join("\n"),
      consequence,
      `See and change budgets: ${origin}/workspaces/${workspaceId}/ai/budgets`,
      `You get this as an owner of the workspace, or because your role manages its AI policy${alert.scope === "key" ? " or its keys" : ""}.`,
    ].join("\n\n"),
  };
}

function subjectWords({ scope, subject, workspace }: BudgetAlert): string {
  if (scope === "workspace") return `the workspace ${oneLine(workspace)}`;
  return `the ${scope} ${subject === null ? "that is gone" : oneLine(subject)}`;
}

/** Names are whatever people type; none may add a line to a mail. */
function oneLine(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  return name.replace(/[\s\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
}

function monthOf(day: string): string {
  return new Date(`${day}T00:00:00Z`).toLocaleString("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
}

function dayOf(moment: string): string {
  return new Date(moment).toLocaleString("en-GB", { dateStyle: "long", timeZone: "UTC" });
}
