import { Card } from "../../ui/card.tsx";
import { countOf, formatExactUsd } from "../../ui/format-amount.ts";
import { periodWords } from "../budgets/budget-words.ts";
import { budgetKey } from "../budgets/open-budget.ts";
import type { RunBudget } from "./run-schema.ts";

const scopeNames = {
  workspace: "workspace",
  app: "app",
  key: "API key",
  member: "member",
  label: "entity label",
} as const;

/** Lists the budgets that held a run, with links to them. Renders nothing if there were none. */
export function RunBudgetsCard(props: { budgets: readonly RunBudget[]; workspacePath: string }) {
  const { budgets, workspacePath } = props;
  if (budgets.length === 0) return null;
  return (
    <Card title="Budgets that held this call" lead="The call had to fit all of them. Limits are those of today.">
      <ul className="space-y-1.5">
        {budgets.map((budget) => {
          const name = runBudgetName(budget);
          const limit = runBudgetLimit(budget);
          return (
            <li key={`${budget.scope} ${budget.period}`} className="wrap-anywhere">
              {budget.isSet && budget.subjectId !== null ? (
                <a className="link" href={`${workspacePath}/ai/${budgetPath(budget, budget.subjectId)}`}>
                  {name}
                </a>
              ) : (
                name
              )}
              {limit ? <span className="text-muted tabular-nums"> · {limit}</span> : null}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

/** Removes the links and limits of API keys' budgets, for members who may not see these. */
export function hideKeyBudgets(budgets: readonly RunBudget[]): RunBudget[] {
  return budgets.map((budget) =>
    budget.scope === "key" ? { ...budget, subjectId: null, isSet: true, limitUsd: null, maxCalls: null } : budget,
  );
}

/** Returns a budget's name: "Daily budget of API key CI". */
export function runBudgetName({ scope, period, name }: Pick<RunBudget, "scope" | "period" | "name">): string {
  if (scope === "envelope") return name === null ? "Task limit" : `Task limit ${name}`;
  return name === null
    ? `${periodWords[period].budget} of a deleted ${scopeNames[scope]}`
    : `${periodWords[period].budget} of ${scopeNames[scope]} ${name}`;
}

/** Describes a budget's current limit; null if it is hidden. */
export function runBudgetLimit({ scope, period, isSet, limitUsd, maxCalls }: RunBudget): string | null {
  if (!isSet) return "removed since";
  const calls = maxCalls === null ? null : `at most ${countOf(maxCalls, "call")}`;
  if (period === "concurrent") return calls;
  const amount = limitUsd === null ? null : `${formatExactUsd(limitUsd)} ${periodWords[period].rate}`;
  return scope === "envelope" ? [amount, calls].filter(Boolean).join(", ") || null : amount;
}

function budgetPath({ scope, name }: RunBudget, subjectId: string): string {
  if (scope === "envelope") return `envelopes/${subjectId}`;
  return `budgets#${budgetKey(scope === "label" ? { scope, label: name ?? "" } : { scope, subjectId })}`;
}
