import type { BudgetSubject, ChangedMeanwhile } from "./budget-change.ts";
import type { Budget, BudgetPeriod } from "./budget-schema.ts";
import { periodWords, type SavedBudget } from "./budget-words.ts";

/** Returns whether a listed subject has a budget, and is not only listed because it could have one. */
export function isBudgetSet({ limitUsd, maxCalls }: Pick<Budget, "limitUsd" | "maxCalls">): boolean {
  return limitUsd !== null || maxCalls !== null;
}

/** The scopes whose concurrent calls can be limited. */
export const concurrentScopes: readonly string[] = ["workspace", "member", "key"];

/** Returns the key that identifies a budget in the page's URL. The key of a monthly budget is its subject's. */
export function budgetKey(of: BudgetSubject, period: BudgetPeriod | "new" = "month"): string {
  const subject = of.scope === "label" ? `label.${of.label}` : `${of.scope}.${of.subjectId}`;
  return period === "month" ? subject : `${subject}/${period}`;
}

/** Returns the subject of a listed budget. For a label, the name is the label. */
function subjectOf({ scope, subjectId, name }: Budget): BudgetSubject {
  return scope === "label" ? { scope, label: name ?? "" } : { scope, subjectId };
}

/** The key of the form that adds a budget for a new label. */
export const newLabelKey = "label.";

/** The fields that a form shows, as typed. */
export interface TypedBudget {
  label?: string | undefined;
  limitUsd?: string | undefined;
  maxCalls?: string | undefined;
  timeZone?: string | undefined;
  thresholds?: string | undefined;
  reservesExpected?: boolean | undefined;
}
export type BudgetField = keyof TypedBudget;

/** An open budget form, with the submitted values if they were rejected. */
export interface OpenBudget {
  key: string;
  typed: TypedBudget;
  errors: Partial<Record<BudgetField, string>>;
  /** The stored values that the form replaces, if the page doesn't list them. */
  current: Omit<ChangedMeanwhile, "outcome"> | null;
}

/** Returns the form that a key in the URL opens. */
export function openBudget(key: string): OpenBudget {
  return { key, typed: {}, errors: {}, current: null };
}

/** A subject with its budgets. */
export interface BudgetedSubject {
  key: string;
  of: BudgetSubject;
  /** A listed row of the subject, which has its name and whether it is live. */
  row: Budget;
  budgets: Budget[];
}

/** Groups listed budgets by subject, in their order. */
export function groupBudgets(rows: readonly Budget[]): BudgetedSubject[] {
  const subjects = new Map<string, BudgetedSubject>();
  for (const row of rows) {
    const of = subjectOf(row);
    const key = budgetKey(of);
    const subject = subjects.get(key) ?? { key, of, row, budgets: [] };
    if (isBudgetSet(row)) subject.budgets.push(row);
    subjects.set(key, subject);
  }
  return [...subjects.values()];
}

/** Splits a key into its subject's key and the period. An unknown period stands for a new budget. */
export function readBudgetKey(key: string): { subject: string; period: BudgetPeriod | "new" } {
  const [subject = "", period = "month"] = key.split("/", 2);
  return { subject, period: Object.hasOwn(periodWords, period) ? (period as BudgetPeriod) : "new" };
}

/** The periods of budgets in dollars. */
export const amountPeriods = ["day", "week", "month", "total"] as const satisfies BudgetPeriod[];

/** Returns the periods for which a subject has no budget in dollars yet. */
export function freePeriods(budgets: readonly Budget[]): BudgetPeriod[] {
  return amountPeriods.filter((period) => !budgets.some((budget) => budget.period === period));
}

/** Returns the period that a new budget proposes: a month, or else the shortest one that is free. */
export function proposePeriod(free: readonly BudgetPeriod[]): BudgetPeriod | undefined {
  return free.includes("month") ? "month" : free[0];
}

/** Returns the listed budget of a key that was just saved, or its subject without the budget if it was removed. */
export function findSavedBudget(rows: readonly Budget[], key: string): SavedBudget | null {
  const { subject: subjectKey, period } = readBudgetKey(key);
  const subject = groupBudgets(rows).find((found) => found.key === subjectKey);
  if (!subject || period === "new") return null;
  const budget = subject.budgets.find((found) => found.period === period) ?? null;
  return { name: subject.row.name, period, budget, hasOthers: subject.budgets.length > 0 };
}

/** Opens the form for a new label if the submitted label is not listed. */
export function openNewLabelForm(open: OpenBudget | null, rows: readonly Budget[]): OpenBudget | null {
  if (open?.typed.label === undefined) return open;
  const isListed = rows.some((row) => budgetKey(subjectOf(row)) === readBudgetKey(open.key).subject);
  return isListed ? open : { ...open, key: newLabelKey };
}
