import { Fragment } from "react";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { searchWith } from "../range.ts";
import { BudgetForm, budgetFormId, canLimitCalls } from "./budget-form.tsx";
import { BudgetMeter } from "./budget-meter.tsx";
import type { Budget, BudgetScope } from "./budget-schema.ts";
import { periodWords } from "./budget-words.ts";
import {
  amountPeriods,
  type BudgetedSubject,
  budgetKey,
  freePeriods,
  groupBudgets,
  newLabelKey,
  type OpenBudget,
  proposePeriod,
  readBudgetKey,
} from "./open-budget.ts";

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
  const subjects = groupBudgets(budgets);
  const ofScope = (wantedScope: BudgetScope) => subjects.filter(({ of }) => of.scope === wantedScope);
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
            {own.map((subject) => (
              <SubjectBudgets
                key={subject.key}
                subject={subject}
                mayChange={mayChange[scope]}
                open={open && readBudgetKey(open.key).subject === subject.key ? open : null}
                cursor={cursor}
              />
            ))}
          </ul>
          {scope === "label" && last && mayChange.label ? <NewLabelBudget open={open} cursor={cursor} /> : null}
        </Card>
      );
    });
}

interface SubjectBudgetsProps {
  subject: BudgetedSubject;
  mayChange: boolean;
  /** The open form, if it is one of this subject's. */
  open: OpenBudget | null;
  cursor: string;
}

/** Shows a subject's budgets and links to change them, or the open form. */
function SubjectBudgets({ subject, mayChange, open, cursor }: SubjectBudgetsProps) {
  const { key, of, row, budgets } = subject;
  const name = row.name ?? "Unnamed";
  const hrefOf = (change: string) => `${searchWith("", { cursor, change })}#${budgetFormId}`;
  const openPeriod = mayChange && open ? readBudgetKey(open.key).period : null;
  const isOpen = ({ period }: Budget) => period === openPeriod;
  const form = { of, name: row.name, enforced: row.enforced, page: searchWith("", { cursor }) };
  const free = freePeriods(budgets);
  const canAddCalls = canLimitCalls(of) && !budgets.some(({ period }) => period === "concurrent");
  // The period of the open form if it adds a budget.
  const added = openPeriod === "new" ? (proposePeriod(free) ?? "concurrent") : openPeriod;
  const isAdding = added !== null && !budgets.some(({ period }) => period === added);
  return (
    <li id={key} className="scroll-mt-6 space-y-4 border-line py-4 first:pt-0 last:pb-0 not-first:border-t">
      {(budgets.length === 0 ? [null] : budgets).map((budget, index) => (
        <Fragment key={budget?.period ?? "none"}>
          <div className="flex flex-col items-start justify-between gap-3 sm:flex-row sm:gap-8">
            <div className="w-full min-w-0 space-y-1 sm:w-auto sm:grow">
              {index === 0 ? (
                <p className="break-words font-medium">
                  {name}
                  {row.live ? null : <span className="text-muted"> (no longer has access)</span>}
                </p>
              ) : null}
              {budget ? <BudgetMeter budget={budget} /> : <p className="text-muted">No budget.</p>}
            </div>
            {mayChange && (budget ? !isOpen(budget) : !isAdding) ? (
              <ChangeLink budget={budget} name={name} href={hrefOf(budgetKey(of, budget?.period))} />
            ) : null}
          </div>
          {budget && open && isOpen(budget) ? (
            <BudgetForm {...form} budget={budget} period={budget.period} open={open} />
          ) : null}
        </Fragment>
      ))}
      {open && isAdding ? (
        <BudgetForm
          {...form}
          budget={null}
          period={added}
          choices={added === "concurrent" ? [] : free}
          timeZone={budgets.find(({ timeZone }) => timeZone !== "UTC")?.timeZone ?? "UTC"}
          concurrentHref={canAddCalls && added !== "concurrent" ? hrefOf(budgetKey(of, "concurrent")) : null}
          open={open}
        />
      ) : null}
      {mayChange && !isAdding && budgets.length > 0 && (free.length > 0 || canAddCalls) ? (
        <p className="text-small">
          <AddLink name={name} href={hrefOf(budgetKey(of, free.length > 0 ? "new" : "concurrent"))}>
            {free.length > 0 ? "Add budget" : "Limit concurrent calls"}
          </AddLink>
        </p>
      ) : null}
    </li>
  );
}

function AddLink({ name, href, children }: { name: string; href: string; children: string }) {
  return (
    <a className="link inline-block py-1" href={href} aria-label={`${children} of ${name}`}>
      {children}
    </a>
  );
}

function ChangeLink({ budget, name, href }: { budget: Budget | null; name: string; href: string }) {
  const isCalls = budget?.period === "concurrent";
  const label = budget === null ? "Set budget" : isCalls ? "Change limit" : "Change budget";
  const period = budget === null || budget.period === "month" ? "" : `, ${periodWords[budget.period].current}`;
  return (
    <ButtonLink href={href} aria-label={`${label} of ${name}${period}`} className="shrink-0 sm:min-w-36">
      {label}
    </ButtonLink>
  );
}

function NewLabelBudget({ open, cursor }: { open: OpenBudget | null; cursor: string }) {
  if (open?.key !== newLabelKey) {
    return (
      <ButtonLink
        id={newLabelKey}
        href={`${searchWith("", { cursor, change: newLabelKey })}#${budgetFormId}`}
        className="mt-4"
      >
        Add label budget
      </ButtonLink>
    );
  }
  return (
    <div className="mt-4" id={newLabelKey}>
      <BudgetForm
        of={null}
        name={null}
        enforced={false}
        budget={null}
        period="month"
        choices={amountPeriods}
        open={open}
        page={searchWith("", { cursor })}
      />
    </div>
  );
}
