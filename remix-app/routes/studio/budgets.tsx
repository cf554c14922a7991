import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { formatDateTime } from "../../http/date-text.ts";
import { readForm } from "../../http/form.ts";
import { problem } from "../../http/problem.ts";
import { changeBudget } from "../../studio/budgets/budget-change.ts";
import { budgetForm, readBudgetForm } from "../../studio/budgets/budget-form-fields.ts";
import { BudgetList } from "../../studio/budgets/budget-list.tsx";
import { savedWords, settingsWords } from "../../studio/budgets/budget-words.ts";
import { budgetPermissions, readBudgets } from "../../studio/budgets/budgets.ts";
import {
  budgetKey,
  findSavedBudget,
  type OpenBudget,
  openBudget,
  openNewLabelForm,
} from "../../studio/budgets/open-budget.ts";
import { searchWith } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Budgets · ${data?.workspace.name ?? "Workspace"}`);

const permission = "use_ai_studio";
const budgetsShown = 40;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const search = new URL(request.url).searchParams;
  const cursor = search.get("cursor") ?? "";
  const page = { limit: budgetsShown, cursor: cursor || undefined, allPeriods: true };
  const listed = await readBudgets(context, { ...member, ...page });
  const may = (scope: keyof typeof budgetPermissions) => workspace.permissions.includes(budgetPermissions[scope]);
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
    done: findSavedBudget(listed.budgets, search.get("done") ?? ""),
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission });
  const { requestId } = context;
  const form = budgetForm.safeParse(Object.fromEntries(await readForm(request, context)));
  if (!form.success) throw problem("INVALID_REQUEST", { requestId });
  const { of, values, typed, errors } = readBudgetForm(form.data);
  const key = budgetKey(of, values.period);
  const refused = (status: number, fields: Partial<OpenBudget>) =>
    data({ open: { key, typed, errors, current: null, ...fields }, meanwhile: null }, { status });
  if (Object.keys(errors).length > 0) return refused(400, {});
  const changed = await changeBudget(context, { member, of, values });
  if (changed.outcome === "invalid") return refused(400, { errors: { [changed.param]: changed.message } });
  if (changed.outcome === "changed_meanwhile") {
    const open: OpenBudget = { key, typed, errors, current: changed };
    return data({ open, meanwhile: settingsWords(values.period, changed) }, { status: 409 });
  }
  const cursor = new URL(request.url).searchParams.get("cursor") ?? "";
  throw redirect(`/workspaces/${workspace.id}/ai/budgets${searchWith("", { cursor, done: key })}`, 303);
}

export default function BudgetsPage() {
  const { workspace, budgets, cursor, nextCursor, mayChange, keysVisible, change, done, endsAt } =
    useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const open = openNewLabelForm(answer?.open ?? (change ? openBudget(change) : null), budgets);
  return (
    <StudioPage
      title="Budgets"
      lead={`Limits on provider cost, in USD. Monthly budgets reset on ${formatDateTime(endsAt)}.`}
      actions={<ButtonLink href={`/workspaces/${workspace.id}/ai/budgets.csv`}>Download CSV</ButtonLink>}
    >
      {answer?.meanwhile ? (
        <Notice tone="warn">
          Someone changed this budget while you were editing it: {answer.meanwhile}. Your change isn’t saved yet. Save
          again to replace theirs.
        </Notice>
      ) : null}
      {done && !answer ? <Notice tone="good">{savedWords(done)}</Notice> : null}
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
      <Card title="How budgets work">
        <ul className="max-w-prose list-disc space-y-1.5 pl-5">
          <li>
            A request whose maximum cost exceeds what’s left is refused with 402{" "}
            <code className="font-mono text-small">budget_exceeded</code>, until the budget resets or you raise it. This
            can happen before the whole budget is spent.
          </li>
          <li>
            A request counts in the day, week or month in which it began. Requests in progress hold their maximum cost.
            When they end, their actual cost is charged and the rest is released.
          </li>
          <li>
            At 50%, at 80% and when requests are refused, we email the workspace’s owners and the members who manage its
            AI policy. For an API key’s budget, members who manage API keys get the email too. Each budget can have
            other percentages.
          </li>
          <li>
            To limit one task, use{" "}
            <a className="link" href={`/workspaces/${workspace.id}/ai/envelopes`}>
              task limits
            </a>
            . To limit requests per minute, use the{" "}
            <a className="link" href={`/workspaces/${workspace.id}/ai/policy`}>
              AI policy
            </a>
            .
          </li>
        </ul>
      </Card>
    </StudioPage>
  );
}
