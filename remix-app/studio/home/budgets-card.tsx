import { Card } from "../../ui/card.tsx";
import { BudgetMeter } from "../budgets/budget-meter.tsx";
import type { Budget } from "../budgets/budget-schema.ts";

const scopes: Record<Budget["scope"], string> = {
  workspace: "Workspace",
  app: "App",
  key: "API key",
  member: "Member",
  label: "Label",
};

/** Shows the budgets nearest to their limit, each as a bar. */
export function BudgetsCard({ budgets, base }: { budgets: readonly Budget[]; base: string }) {
  return (
    <Card
      title="Budgets"
      lead="Closest to the limit first."
      action={
        <a href={`${base}/ai/budgets`} className="link">
          All budgets
        </a>
      }
    >
      {budgets.length === 0 ? (
        <p className="text-muted">No budgets yet. Set a limit for the workspace, an API key, app or member.</p>
      ) : (
        <ul className="space-y-4">
          {budgets.map((budget) => (
            <li key={`${budget.scope} ${budget.subjectId} ${budget.period}`} className="space-y-1">
              <p className="wrap-anywhere font-medium">
                <bdi>{budget.name ?? "Unnamed"}</bdi>{" "}
                <span className="font-normal text-muted text-small">· {scopes[budget.scope]}</span>
              </p>
              <BudgetMeter budget={budget} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
