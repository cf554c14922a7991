import { formatDay } from "../../http/date-text.ts";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, formatCount, formatMs } from "../../ui/format-amount.ts";
import { Credits, Usd } from "../../ui/money.tsx";
import { ChangeText } from "../figures.tsx";
import { periodOf, type Range, rangeDays } from "../range.ts";
import { linkToRuns } from "../runs/runs-link.ts";
import type { Overview, OverviewRow } from "./overview.ts";
import {
  compareRowMetric,
  dimensionLabels,
  type Metric,
  metricViews,
  type OverviewDimension,
  otherLabelsKey,
  statusOf,
} from "./overview-metric.ts";

/** Query parameters of the run list whose names differ from the dimension that they filter by. */
const filters: Partial<Record<OverviewDimension, string>> = { app: "appId", member: "memberId", label: "entityId" };

/** The maximum number of days to list, so that the page fits in 100 KB of HTML even with a chart of 92 days. */
const listedDays = 38;

const formatLatency = (value: number | null) => (value === null ? "–" : formatMs(value));

const p50: DataColumn<OverviewRow> = {
  label: "p50",
  numeric: true,
  small: "hidden",
  cell: ({ now }) => formatLatency(now.latencyP50Ms),
};
const p95: DataColumn<OverviewRow> = {
  label: "p95",
  numeric: true,
  cell: ({ now }) => formatLatency(now.latencyP95Ms),
};

const refused: DataColumn<OverviewRow> = {
  label: "Refused",
  numeric: true,
  cell: ({ now }) => formatCount(now.refused ?? 0),
};

/** Shows the chart's figures as a table whose rows link to their runs. */
export function OverviewTable({
  overview: { totals, rows: all, leftOut: unread, daysEach },
  by,
  metric,
  range,
  runsPath,
}: {
  overview: Overview;
  by: OverviewDimension;
  /** The chart's metric. The listed changes are changes of this metric. */
  metric: Metric;
  range: Range;
  runsPath: string;
}) {
  const used =
    by === "day" ? all.filter(({ now, otherDeductions }) => now.requests > 0 || now.refused || otherDeductions) : all;
  const rows = by === "day" ? used.slice(0, listedDays) : used;
  const leftOut = unread + used.length - rows.length;
  const costVisible = totals.amountUsd !== null;
  // Refused calls have no label.
  const showsRefused = by !== "label" && (metric === "refused" || rows.some(({ now }) => now.refused));
  const timed = rows.some(({ now }) => now.latencyP50Ms !== null || now.latencyP95Ms !== null);
  const otherwise = Number(totals.otherDeductions) > 0;
  const spendDecimals = columnDecimals(rows.map(({ now }) => now.amountUsd));
  const creditDecimals = columnDecimals(rows.map(({ now }) => now.billedCredits));
  const otherDecimals = columnDecimals(rows.map(({ otherDeductions }) => otherDeductions));
  /** The selected metric is next to the row's name on small screens. */
  const small = (column: Metric, otherwise: DataColumn<OverviewRow>["small"] = "below") =>
    column === metric ? "aside" : otherwise;
  const spend: DataColumn<OverviewRow> = {
    label: "Spend",
    numeric: true,
    small: small("spend"),
    cell: (row) => <Usd amount={row.now.amountUsd} decimals={spendDecimals} />,
  };
  const credits: DataColumn<OverviewRow> = {
    label: "Credits",
    numeric: true,
    small: small("credits", costVisible ? "hidden" : "below"),
    cell: (row) => <Credits amount={row.now.billedCredits} decimals={creditDecimals} />,
  };
  const change: DataColumn<OverviewRow> = {
    label: `Change in ${metricViews[metric].label.toLowerCase()}`,
    numeric: true,
    cell: (row) => {
      const changed = compareRowMetric(row, metric);
      return changed ? <ChangeText change={changed} /> : "–";
    },
  };
  const other: DataColumn<OverviewRow> = {
    label: "Credits without a run",
    numeric: true,
    cell: (row) => <Credits amount={row.otherDeductions ?? "0"} decimals={otherDecimals} />,
  };
  return (
    <>
      <DataTable
        caption={`Usage by ${by}`}
        rows={rows}
        rowKey={({ key }) => key}
        empty="Nothing was used in this range."
        from="lg"
        columns={[
          {
            label: by !== "day" ? dimensionLabels[by] : daysEach > 1 ? "Week from (UTC)" : "Day (UTC)",
            cell: (row) => (
              <RunsLink row={row} by={by} metric={metric} range={range} daysEach={daysEach} runsPath={runsPath} />
            ),
          },
          ...(costVisible ? [spend] : []),
          // Days have no column for the change: a day is unrelated to the day at the same position in the previous
          // range.
          ...(by === "day" ? [] : [change]),
          credits,
          ...(otherwise && by === "day" ? [other] : []),
          { label: "Requests", numeric: true, small: small("requests"), cell: ({ now }) => formatCount(now.requests) },
          { label: "Failed", numeric: true, small: small("failed"), cell: ({ now }) => formatCount(now.failed) },
          ...(showsRefused ? [{ ...refused, small: small("refused") }] : []),
          {
            label: "Tokens",
            numeric: true,
            small: small("tokens", "hidden"),
            cell: ({ now }) => formatCount(now.inputTokens + now.outputTokens),
          },
          // One more column would not fit. The figures above show the median.
          ...(timed && !showsRefused ? [p50] : []),
          ...(timed ? [{ ...p95, small: small("latency") }] : []),
        ]}
      />
      {leftOut > 0 ? (
        <p className="pt-3 text-muted text-small">
          {by === "day"
            ? `${formatCount(leftOut)} more days are in the chart above.`
            : `${formatCount(leftOut)} more ${by}s aren’t listed, but the totals above include them.`}{" "}
          Download the CSV for up to 10,000 rows.
        </p>
      ) : null}
      {otherwise && by !== "day" ? (
        <p className="pt-3 text-muted text-small">
          <Credits amount={totals.otherDeductions} /> more credits were deducted without a run.
        </p>
      ) : null}
    </>
  );
}

/** Shows a row's name, as a link to the row's runs if the list of runs has a filter for the row. */
function RunsLink({
  row,
  by,
  metric,
  range,
  daysEach,
  runsPath,
}: {
  row: OverviewRow;
  by: OverviewDimension;
  metric: Metric;
  range: Range;
  daysEach: number;
  runsPath: string;
}) {
  const { first, last } = by === "day" ? periodOf(range, { first: row.label, days: daysEach }) : rangeDays(range);
  const filter = by === "day" ? {} : { [filters[by] ?? by]: row.key };
  if (by === "key" || row.key === "" || (by === "label" && row.key === otherLabelsKey)) return row.label;
  return (
    <a className="link" href={linkToRuns(runsPath, { ...filter, ...statusOf(metric), from: first, to: last })}>
      {by === "day" ? formatDay(row.label) : row.label}
    </a>
  );
}
