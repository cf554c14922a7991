import { type MetaFunction, useLoaderData, useLocation } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { changeOf } from "../studio/change.ts";
import { formatCount, formatShortCount, formatUsd } from "../studio/format-amount.ts";
import { readDimension, readOverview } from "../studio/overview.ts";
import { readRange } from "../studio/range.ts";
import { rowLabel } from "../studio/row-label.ts";
import { buttonClass } from "../ui/button.tsx";
import { ColumnChart } from "../ui/charts/column-chart.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { Figures } from "../ui/figures.tsx";
import { Credits, Usd } from "../ui/money.tsx";
import { Panel } from "../ui/panel.tsx";
import { RangeForm } from "../ui/range-form.tsx";
import { StudioPage } from "../ui/studio-page.tsx";
import { requireWorkspacePermission } from "../workspaces/permission.ts";

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `AI studio · ${data?.workspace.name ?? "Workspace"} · Gatehouse` },
];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace } = await requireWorkspacePermission(context, {
    request,
    workspaceId: params.workspaceId,
    permission: "use_ai_studio",
  });
  const url = new URL(request.url);
  const range = readRange(url, { now: new Date() });
  const by = readDimension(url);
  const reader = { kind: "member", userId: user.id, workspaceId: workspace.id } as const;
  const { email, displayName } = user;
  return {
    user: { email, displayName },
    workspace,
    range,
    by,
    ...(await readOverview(context, { reader, range, by })),
  };
}

export default function StudioOverview() {
  const { user, workspace, range, by, totals, before, rows } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  return (
    <StudioPage
      user={user}
      workspace={workspace}
      title="Overview"
      actions={
        <a href={`/workspaces/${workspace.id}/ai/usage.csv${search}`} className={buttonClass("secondary")} download>
          CSV
        </a>
      }
    >
      <RangeForm range={range} />
      <Figures
        figures={[
          {
            label: "Spend",
            value: <Usd amount={totals.amountUsd} />,
            change: changeOf(totals.amountUsd, before.amountUsd),
          },
          {
            label: "Credits",
            value: <Credits amount={totals.usedCredits} />,
            change: changeOf(totals.usedCredits, before.usedCredits),
          },
          {
            label: "Requests",
            value: formatCount(totals.requests),
            change: changeOf(totals.requests, before.requests),
          },
          { label: "Failed", value: formatCount(totals.failed), change: changeOf(totals.failed, before.failed) },
        ]}
      />
      <Panel>
        <ColumnChart
          label="Spend"
          columns={rows.map((row) => ({
            label: rowLabel(row, by),
            value: Number(row.amountUsd),
            text: formatUsd(row.amountUsd ?? "0"),
          }))}
          formatMark={(value) => `$${formatShortCount(value)}`}
        />
      </Panel>
      <Panel>
        <DataTable
          caption="Usage"
          columns={[
            { label: by, cell: (row) => rowLabel(row, by) },
            { label: "Spend", numeric: true, small: "aside", cell: (row) => <Usd amount={row.amountUsd} /> },
            { label: "Credits", numeric: true, cell: (row) => <Credits amount={row.billedCredits} /> },
            { label: "Requests", numeric: true, cell: (row) => formatCount(row.requests) },
            { label: "Failed", numeric: true, cell: (row) => formatCount(row.failed) },
          ]}
          rows={rows}
          rowKey={(row) => rowLabel(row, by)}
          empty="No call yet."
        />
      </Panel>
    </StudioPage>
  );
}
