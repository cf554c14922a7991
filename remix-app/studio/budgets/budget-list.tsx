import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { ErrorSummary } from "../../ui/error-summary.tsx";
import { Field } from "../../ui/field.tsx";
import { searchWith } from "../range.ts";
import { BudgetMeter } from "./budget-meter.tsx";
import type { Budget, BudgetScope, BudgetSubject } from "./budgets.ts";

/** Returns the key that identifies a budget in the page's URL. */
export function budgetKey(of: BudgetSubject): string {
  return of.scope === "label" ? `label.${of.label}` : `${of.scope}.${of.subjectId}`;
}

/** Returns the subject of a listed budget. For a label, the name is the label. */
export function subjectOf({ scope, subjectId, name }: Budget): BudgetSubject {
  return scope === "label" ? { scope, label: name ?? "" } : { scope, subjectId };
}

/** The key of the form that adds a budget for a new label. */
export const newLabelKey = "label.";

/** An open budget form, with the submitted values if they were rejected. */
export interface OpenBudget {
  key: string;
  typed: string | null;
  error: string | null;
  /** Set only in the form for a new label. */
  label?: { typed: string; error: string | null; currentUsd: string | null };
}

const scopeSections: { scope: BudgetScope; title: string; lead: string; empty: string }[] = [
  {
    scope: "workspace",
    title: "Workspace",
    lead: "Applies to every request, in addition to the budgets below.",
    empty: "",
  },
  {
    scope: "app",
    title: "Apps",
    lead: "External apps linked to this workspace. Their requests don’t use credits, but their cost counts toward budgets.",
    empty: "No external app is linked to this workspace.",
  },
  {
    scope: "key",
    title: "API keys",
    lead: "Rotating an API key keeps its budget and what it has spent.",
    empty: "No API keys yet. You can set a budget when you create one.",
  },
  {
    scope: "member",
    title: "Members",
    lead: "Limits a member’s own requests, and requests that API keys and apps make on their behalf.",
    empty: "",
  },
  {
    scope: "label",
    title: "Entity labels",
    lead: "Limits requests by entity label, such as one label per customer. Requests from API keys created with the label are refused once the budget is used up. Other requests that send the label in the X-Platform-Entity-Id header count toward the budget, but are never refused because of it.",
    empty: "No entity label has a budget yet.",
  },
];

/**
 * Lists budgets by subject, each with its form if it is open.
 * @param props.whole whether the list is complete; only a complete list shows which kinds of budgets are missing
 * @param props.last whether this is the last page, which has the labels and the form to add a label's budget
 * @param props.cursor the cursor of the current page, to return to after a change; empty for the first page
 */
export function BudgetList({
  budgets,
  whole,
  last,
  cursor,
  mayChange,
  keysVisible,
  open,
}: {
  budgets: Budget[];
  whole: boolean;
  last: boolean;
  cursor: string;
  mayChange: Record<BudgetScope, boolean>;
  keysVisible: boolean;
  open: OpenBudget | null;
}) {
  const ofScope = (wantedScope: BudgetScope) => budgets.filter(({ scope }) => scope === wantedScope);
  return scopeSections
    .filter(
      ({ scope }) =>
        (scope !== "key" || keysVisible) && (whole || (last && scope === "label") || ofScope(scope).length > 0),
    )
    .map(({ scope, title, lead, empty }) => {
      const own = ofScope(scope);
      return (
        <Card key={scope} title={title} lead={lead}>
          {own.length === 0 ? <p className="text-muted">{empty}</p> : null}
          <ul>
            {own.map((budget) => {
              const key = budgetKey(subjectOf(budget));
              const isOpen = mayChange[scope] && open?.key === key;
              const action = budget.limitUsd === null ? "Set budget" : "Change budget";
              const name = budget.name ?? "Unnamed";
              return (
                <li
                  key={key}
                  id={key}
                  className="scroll-mt-6 space-y-3 border-line py-4 first:pt-0 last:pb-0 not-first:border-t"
                >
                  <div className="flex flex-col items-start justify-between gap-3 sm:flex-row sm:gap-8">
                    <div className="w-full min-w-0 space-y-1 sm:w-auto sm:grow">
                      <p className="break-words font-medium">
                        {name} {budget.live ? null : <span className="text-muted">(no longer has access)</span>}
                      </p>
                      <BudgetMeter budget={budget} />
                    </div>
                    {mayChange[scope] && !isOpen ? (
                      <ButtonLink
                        href={`${searchWith("", { cursor, change: key })}#${key}`}
                        aria-label={`${action} of ${name}`}
                        className="shrink-0"
                      >
                        {action}
                      </ButtonLink>
                    ) : null}
                  </div>
                  {isOpen && open ? <BudgetForm budget={budget} open={open} page={searchWith("", { cursor })} /> : null}
                </li>
              );
            })}
          </ul>
          {scope === "label" && last && mayChange.label ? <NewLabelBudget open={open} cursor={cursor} /> : null}
        </Card>
      );
    });
}

function NewLabelBudget({ open, cursor }: { open: OpenBudget | null; cursor: string }) {
  if (open?.key !== newLabelKey) {
    return (
      <ButtonLink
        id={newLabelKey}
        href={`${searchWith("", { cursor, change: newLabelKey })}#${newLabelKey}`}
        className="mt-4"
      >
        Add label budget
      </ButtonLink>
    );
  }
  const { typed, error, label } = open;
  const page = searchWith("", { cursor });
  return (
    <AccountForm action={page} noValidate id={newLabelKey} className="mt-4 max-w-108 scroll-mt-6 space-y-4">
      <ErrorSummary id="budget-error" fields={{ label: label?.error, limitUsd: error }} />
      <input type="hidden" name="scope" value="label" />
      <input type="hidden" name="readUsd" value={label?.currentUsd ?? ""} />
      <Field
        name="label"
        label="Entity label"
        hint="Up to 128 letters, digits, dots, underscores, colons and hyphens, such as customer:7."
        autoComplete="off"
        defaultValue={label?.typed ?? ""}
        error={label?.error}
      />
      <Field
        name="limitUsd"
        label="Monthly budget, in dollars"
        inputMode="decimal"
        autoComplete="off"
        defaultValue={typed ?? ""}
        error={error}
      />
      <div className="flex flex-wrap gap-3">
        <Button name="intent" value="save">
          Save budget
        </Button>
        <ButtonLink href={page}>Cancel</ButtonLink>
      </div>
    </AccountForm>
  );
}

/** @param props.page the list page's query string */
function BudgetForm({ budget, open: { typed, error }, page }: { budget: Budget; open: OpenBudget; page: string }) {
  const { scope, subjectId, limitUsd, name, enforced } = budget;
  return (
    <AccountForm action={page} noValidate className="max-w-108 space-y-4">
      <ErrorSummary id="budget-error" fields={{ limitUsd: error }} />
      <input type="hidden" name="scope" value={scope} />
      {scope === "label" ? (
        <input type="hidden" name="label" value={name ?? ""} />
      ) : (
        <input type="hidden" name="subjectId" value={subjectId} />
      )}
      <input type="hidden" name="readUsd" value={limitUsd ?? ""} />
      <Field
        name="limitUsd"
        label={`Monthly budget of ${name ?? "this"}, in dollars`}
        hint={
          enforced
            ? "Applies from the next request. Enter 0 to refuse every request."
            : "We’ll warn by email. No API key has this label, so no request is refused."
        }
        inputMode="decimal"
        autoComplete="off"
        defaultValue={typed ?? limitUsd ?? ""}
        error={error}
      />
      <div className="flex flex-wrap gap-3">
        <Button name="intent" value="save">
          Save budget
        </Button>
        {limitUsd === null ? null : (
          <Button name="intent" value="remove" variant="danger">
            Remove budget
          </Button>
        )}
        <ButtonLink href={page}>Cancel</ButtonLink>
      </div>
    </AccountForm>
  );
}
