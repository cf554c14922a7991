import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { isLabel } from "#shared/labels.ts";
import { formatDateTime } from "../../http/date-text.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { BudgetList, budgetKey, newLabelKey, type OpenBudget, subjectOf } from "../../studio/budgets/budget-list.tsx";
import {
  type Budget,
  type BudgetSubject,
  budgetForm,
  budgetPermissions,
  changeBudget,
  readBudgetAmount,
  readBudgets,
} from "../../studio/budgets/budgets.ts";
import { searchWith } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { formatExactUsd } from "../../ui/format-amount.ts";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Budgets · ${data?.workspace.name ?? "Workspace"}`);

const permission = "use_ai_studio";
const budgetsShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const search = new URL(request.url).searchParams;
  const cursor = search.get("cursor") ?? "";
  const page = { limit: budgetsShown, cursor: cursor || undefined };
  const listed = await readBudgets(context, { ...member, ...page });
  const may = (scope: keyof typeof budgetPermissions) => workspace.permissions.includes(budgetPermissions[scope]);
  const changed = search.get("done") ?? "";
  const done = listed.budgets.find((budget) => budgetKey(subjectOf(budget)) === changed);
  return {
    workspace,
    ...listed,
    cursor,
    mayChange: {
      workspace: may("workspace"),
      app: may("app"),
      key: may("key"),
      member: may("member"),
      label: may("label"),
    },
    change: search.get("change"),
    done: done ? { name: done.name, limitUsd: done.limitUsd } : null,
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const { requestId } = context;
  const form = budgetForm.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!form.success) throw problem("INVALID_REQUEST", { requestId });
  const { readUsd, intent, limitUsd: typed, ...of } = form.data;
  const key = budgetKey(of);
  const limitUsd = intent === "remove" ? null : readBudgetAmount(typed);
  const noAmount = intent === "save" && limitUsd === null ? "Enter an amount in dollars, such as 50 or 12.50" : null;
  const noLabel = of.scope === "label" && !isLabel(of.label) ? labelFault(of.label) : null;
  if (noAmount !== null || noLabel !== null) {
    const open: OpenBudget = { key, typed, error: noAmount };
    return data(
      { open: withLabel(open, { of, error: noLabel, currentUsd: readUsd }), meanwhile: null },
      { status: 400 },
    );
  }
  const change = { ...member, of, readUsd, limitUsd };
  const changed = await changeBudget(context, change);
  if (changed.outcome === "changed_meanwhile") {
    const open = withLabel({ key, typed, error: null }, { of, error: null, currentUsd: changed.limitUsd });
    return data({ open, meanwhile: changed }, { status: 409 });
  }
  const cursor = new URL(request.url).searchParams.get("cursor") ?? "";
  throw redirect(`/workspaces/${workspace.id}/ai/budgets${searchWith("", { cursor, done: key })}`, 303);
}

export default function BudgetsPage() {
  const { workspace, budgets, cursor, nextCursor, mayChange, keysVisible, change, done, endsAt } =
    useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const open = openNewLabelForm(answer?.open ?? (change ? { key: change, typed: null, error: null } : null), budgets);
  return (
    <StudioPage
      title="Budgets"
      lead={`Monthly limits on provider cost, in USD. They reset on ${formatDateTime(endsAt)}.`}
      actions={<ButtonLink href={`/workspaces/${workspace.id}/ai/budgets.csv`}>Download CSV</ButtonLink>}
    >
      {answer?.meanwhile ? (
        <Notice tone="warn">
          Someone changed this budget while you were editing it:{" "}
          {answer.meanwhile.limitUsd === null
            ? "it was removed"
            : `it is ${formatExactUsd(answer.meanwhile.limitUsd)} now`}
          . Your change isn’t saved yet. Save again to replace theirs.
        </Notice>
      ) : null}
      {done && !answer ? <Notice tone="good">{doneWords(done)}</Notice> : null}
      <BudgetList
        budgets={budgets}
        whole={cursor === "" && nextCursor === null}
        last={nextCursor === null}
        cursor={cursor}
        mayChange={mayChange}
        keysVisible={keysVisible}
        open={open}
      />
      {nextCursor ? (
        <p>
          <a className="link" href={searchWith("", { cursor: nextCursor })}>
            More budgets
          </a>
        </p>
      ) : null}
      <Card title="When a budget is used up">
        <ul className="max-w-prose list-disc space-y-1.5 pl-5">
          <li>
            A request whose maximum cost exceeds what’s left is refused with 402{" "}
            <code className="font-mono text-small">budget_exceeded</code>, until the budget resets or you raise it. This
            can happen before the whole budget is spent.
          </li>
          <li>
            Requests in progress hold their maximum cost. When they end, their actual cost is charged and the rest is
            released.
          </li>
          <li>
            At 50%, at 80% and when requests are refused, we email the workspace’s owners and the members who manage its
            AI policy. For an API key’s budget, members who manage API keys get the email too.
          </li>
        </ul>
      </Card>
    </StudioPage>
  );
}

/** Adds the submitted label and its error to the open form. */
function withLabel(
  open: OpenBudget,
  { of, error, currentUsd }: { of: BudgetSubject; error: string | null; currentUsd: string | null },
): OpenBudget {
  return of.scope === "label" ? { ...open, label: { typed: of.label, error, currentUsd } } : open;
}

/** Opens the form for a new label if the submitted label is not listed. */
function openNewLabelForm(open: OpenBudget | null, budgets: Budget[]): OpenBudget | null {
  const isListed = budgets.some((budget) => budgetKey(subjectOf(budget)) === open?.key);
  return open?.label && !isListed ? { ...open, key: newLabelKey } : open;
}

function doneWords({ name, limitUsd }: { name: string | null; limitUsd: string | null }): string {
  if (name === null) return "Budget changed.";
  return limitUsd === null
    ? `${name} no longer has a budget.`
    : `Budget saved: ${formatExactUsd(limitUsd)} per month for ${name}.`;
}

function labelFault(typed: string): string {
  return typed === ""
    ? "Enter a label, such as customer:7"
    : "Use up to 128 letters, digits, dots, underscores, colons and hyphens, such as customer:7";
}
