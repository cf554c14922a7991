import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { Choices } from "../../studio/choices.tsx";
import { rangeStatus, readRange } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import { chooseDaysPerColumn, getMaxRows, readOverview } from "../../studio/usage/overview.ts";
import {
  dimensionLabels,
  metricsShown,
  metricViews,
  overviewDimensions,
  readDimension,
  readMetric,
} from "../../studio/usage/overview-metric.ts";
import { OverviewChart, OverviewFigures } from "../../studio/usage/overview-summary.tsx";
import { OverviewTable } from "../../studio/usage/overview-table.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Usage · ${data?.workspace.name ?? "Workspace"}`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const url = new URL(request.url);
  const range = readRange(url, { now: new Date() });
  const by = readDimension(url);
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const overview = await readOverview(context, {
    reader: member,
    range,
    by,
    daysEach: chooseDaysPerColumn(range, by),
    maxRows: getMaxRows(by),
  });
  return data({ workspace, range, by, overview }, rangeStatus(range));
}

export default function UsagePage() {
  const { workspace, range, by, overview } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const base = `/workspaces/${workspace.id}/ai`;
  const isRefused = Boolean(overview.totals.refused || overview.previous.refused);
  if (!overview.everUsed && !isRefused) {
    return (
      <StudioPage title="Usage">
        <Panel>
          <div className="max-w-prose space-y-4 py-2">
            <p className="font-medium text-large">No requests yet</p>
            <p className="text-muted">Your spend, usage and latency by model, key and app will appear here.</p>
            <ButtonLink href={`/workspaces/${workspace.id}`} variant="primary">
              Get started
            </ButtonLink>
          </div>
        </Panel>
      </StudioPage>
    );
  }
  const unused = overview.totals.requests === 0 && overview.previous.requests === 0 && !isRefused;
  const costVisible = overview.totals.amountUsd !== null;
  const metrics = metricsShown({ costVisible });
  const metric = readMetric(new URLSearchParams(search), { costVisible });
  return (
    <StudioPage title="Usage" actions={<ButtonLink href={`${base}/usage.csv${search}`}>Download CSV</ButtonLink>}>
      <RangeForm range={range} />
      <OverviewFigures overview={overview} range={range} />
      <div className="flex flex-wrap gap-x-8 gap-y-3">
        <Choices
          label="Show"
          name="show"
          chosen={metric}
          options={metrics.map((value) => ({ value, label: metricViews[value].label }))}
        />
        <Choices
          label="By"
          name="by"
          chosen={by}
          options={overviewDimensions.map((value) => ({ value, label: dimensionLabels[value] }))}
        />
      </div>
      <Panel>
        {unused ? (
          <p className="text-muted">No requests in this range or the previous one. Choose another range above.</p>
        ) : (
          // Relative to this page's address, because a chart has hundreds of these links.
          <OverviewChart overview={overview} range={range} by={by} metric={metric} runsPath="ai/runs" />
        )}
      </Panel>
      {unused && Number(overview.totals.otherDeductions) === 0 ? null : (
        <Panel>
          <OverviewTable overview={overview} by={by} metric={metric} range={range} runsPath={`${base}/runs`} />
        </Panel>
      )}
    </StudioPage>
  );
}
