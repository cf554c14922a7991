import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { listPlans, payerLabels } from "../../admin/plans.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import {
  getMoveRestriction,
  moveEffects,
  moveSchema,
  moveWorkspaceToPlan,
  requireConsoleWorkspace,
} from "../../admin/workspace.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card, Panel } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { Credits } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Change plan · Console");

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const [workspace, plans] = await Promise.all([
    requireConsoleWorkspace(context, params.workspaceId),
    listPlans(context),
  ]);
  const planId = new URL(request.url).searchParams.get("plan");
  const others = plans.filter(({ id }) => id !== workspace.planId);
  const to = others.find(({ id }) => id === planId) ?? null;
  return {
    workspace: {
      id: workspace.id,
      name: workspace.name,
      planId: workspace.planId,
      plan: workspace.plan?.name ?? workspace.planId,
    },
    others,
    to,
    effects: to ? moveEffects(workspace, to) : [],
    lock: getMoveRestriction(admin, workspace),
    restored: restoreChange(context, { request, admin }),
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const workspace = await requireConsoleWorkspace(context, params.workspaceId);
  return answerChange(context, {
    request,
    schema: moveSchema,
    change: (change) => moveWorkspaceToPlan(context, { ...change, admin, workspace: workspace.id }),
    to: () => `/admin/workspaces/${workspace.id}?done`,
  });
}

export default function ConsoleWorkspacePlanPage() {
  const { workspace, others, to, effects, lock, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  const page = `/admin/workspaces/${workspace.id}`;
  if (lock || !to) {
    return (
      <Page title="Change plan" lead={workspace.name}>
        {lock ? <Notice>{lock}</Notice> : null}
        <Card title="Choose a plan" lead={`The workspace is on the ${workspace.plan} plan.`}>
          <DataTable
            caption="Plans"
            rows={lock ? [] : others}
            rowKey={({ id }) => id}
            empty="There is no other plan. Add one under Plans."
            columns={[
              {
                label: "Plan",
                cell: ({ id, name }) => (
                  <a className="link font-medium" href={`${page}/plan?${new URLSearchParams({ plan: id })}`}>
                    {name}
                  </a>
                ),
              },
              { label: "Paid by", cell: ({ payer }) => payerLabels[payer] },
              { label: "Markup", numeric: true, small: "aside", cell: ({ markup }) => `×${markup}` },
              {
                label: "Initial credits",
                numeric: true,
                cell: ({ initialCredits }) => <Credits amount={initialCredits} />,
              },
            ]}
          />
        </Card>
      </Page>
    );
  }
  return (
    <Page title={`Move to ${to.name}`} lead={workspace.name}>
      <Panel>
        <ChangeForm
          effects={effects}
          failed={failed}
          submit={`Move to ${to.name}`}
          cancelTo={page}
          hidden={{ plan: to.id, seen: workspace.planId }}
        />
      </Panel>
    </Page>
  );
}
