import type { ReactNode } from "react";
import { formatDay } from "../../http/date-text.ts";
import { BarList } from "../../ui/charts/bar-list.tsx";
import { ColumnChart } from "../../ui/charts/column-chart.tsx";
import { formatCount, formatMs, formatShortCount } from "../../ui/format-amount.ts";
import { Credits, Usd } from "../../ui/money.tsx";
import { Figures } from "../figures.tsx";
import { dayAfter, periodOf, type Range, rangeDays } from "../range.ts";
import { linkToRuns } from "../runs/runs-link.ts";
import { ModelChart } from "./model-chart.tsx";
import type { Overview } from "./overview.ts";
import { compareFigures, type Metric, metricViews, type OverviewDimension, statusOf } from "./overview-metric.ts";

/** Shows the four figures of the range, compared with the previous range, and the dates of the previous range. */
export function OverviewFigures({ overview, range }: { overview: Overview; range: Range }) {
  const { first, last } = rangeDays(range.previous);
  if (overview.totals.requests === 0 && overview.previous.requests === 0)
    return <ComparedFigures overview={overview} />;
  return (
    <div className="space-y-2">
      <ComparedFigures overview={overview} />
      <p className="text-muted text-small">
        {`↑ ↓ show the change from the previous range: ${first === last ? formatDay(first) : `${formatDay(first)} to ${formatDay(last)}`}.`}
      </p>
    </div>
  );
}

function ComparedFigures({ overview: { totals, previous } }: { overview: Overview }) {
  const tokens = totals.inputTokens + totals.outputTokens;
  const failedShare = totals.requests > 0 ? (totals.failed / totals.requests) * 100 : 0;
  return (
    <Figures
      figures={[
        totals.amountUsd === null
          ? {
              label: "Credits",
              value: <Credits amount={totals.usedCredits} />,
              change: compareFigures(totals.usedCredits, previous.usedCredits),
            }
          : {
              label: "Spend",
              value: <Usd amount={totals.amountUsd} />,
              change: compareFigures(totals.amountUsd, previous.amountUsd),
              note: (
                <>
                  <Credits amount={totals.usedCredits} /> credits
                </>
              ),
            },
        {
          label: "Requests",
          value: formatCount(totals.requests),
          change: compareFigures(totals.requests, previous.requests),
          note: `${failedShare.toFixed(1)}% failed${totals.refused ? `, ${formatCount(totals.refused)} more refused` : ""}`,
        },
        {
          label: "Tokens",
          value: <span title={formatCount(tokens)}>{formatShortCount(tokens)}</span>,
          change: compareFigures(tokens, previous.inputTokens + previous.outputTokens),
          note: `${formatShortCount(totals.inputTokens)} in, ${formatShortCount(totals.outputTokens)} out`,
        },
        {
          label: "Latency (p95)",
          value: totals.latencyP95Ms === null ? "–" : formatMs(totals.latencyP95Ms),
          change: compareFigures(totals.latencyP95Ms, previous.latencyP95Ms),
          note: latencyNote(totals),
        },
      ]}
    />
  );
}

function latencyNote({ latencyP50Ms, firstTokenP50Ms }: Overview["totals"]): ReactNode {
  if (latencyP50Ms === null) return null;
  const firstToken = firstTokenP50Ms === null ? "" : `, first token ${formatMs(firstTokenP50Ms)}`;
  return <span title="Within the width of a bucket, 19%">{`p50 ${formatMs(latencyP50Ms)}${firstToken}`}</span>;
}

/**
 * Shows the chart of one metric: columns by day, stacked columns by model, and bars for every other dimension. Latency
 * and refused calls by model also have bars.
 */
export function OverviewChart({
  overview,
  range,
  by,
  metric,
  runsPath,
}: {
  overview: Overview;
  range: Range;
  by: OverviewDimension;
  metric: Metric;
  runsPath: string;
}) {
  const { rows, daysEach, series } = overview;
  if (series && metric !== "latency" && metric !== "refused")
    return <ModelChart overview={{ ...overview, series }} range={range} metric={metric} runsPath={runsPath} />;
  const { label, value, text, mark, whole } = metricViews[metric];
  // When grouped by day, a row's key is the number of days from the range's start to the row's first day.
  const previousDay = ({ key }: { key: string }) =>
    by === "day" ? formatDay(dayAfter(range.previous.from, Number(key))) : "previous range";
  const drawn = rows.map((row) => ({
    key: row.key,
    label: by === "day" ? formatDay(row.label) : row.label,
    value: value(row.now),
    text: text(row.now),
    previous: row.before && { label: previousDay(row), value: value(row.before), text: text(row.before) },
  }));
  if (by === "day") {
    const name = `${label} by ${daysEach > 1 ? "week" : "day"} (UTC); the table below has the same figures`;
    const columns = drawn.map((column, index) => {
      const { first, last, isInProgress } = periodOf(range, { first: rows[index]?.label ?? "", days: daysEach });
      return { ...column, href: linkToRuns(runsPath, { ...statusOf(metric), from: first, to: last }), isInProgress };
    });
    return <ColumnChart label={name} columns={columns.reverse()} formatMark={mark} whole={whole} />;
  }
  return <BarList label={`${label} by ${by}`} bars={drawn.sort((a, b) => b.value - a.value)} />;
}
