import type { ReactNode } from "react";
import { formatDay } from "../../http/date-text.ts";
import { StackedColumnChart } from "../../ui/charts/column-chart.tsx";
import { shortenName } from "../../ui/charts/shorten-name.ts";
import { type DataColumn, DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, formatCount, formatCredits, formatUsd } from "../../ui/format-amount.ts";
import { Credits, Usd } from "../../ui/money.tsx";
import { dayAfter, periodOf, type Range } from "../range.ts";
import { linkToRuns } from "../runs/runs-link.ts";
import type { Overview, UsageOfModel } from "./overview.ts";
import { type Metric, metricViews } from "./overview-metric.ts";

/** Metrics that are known by day and model. */
export type AdditiveMetric = Exclude<Metric, "latency" | "refused">;

const others = "Other models";
const dayMs = 86_400_000;

/** Returns a model's exact amount, or its count as a string. */
const amountReaders: Record<AdditiveMetric, (usage: UsageOfModel) => string> = {
  spend: ({ amountUsd }) => amountUsd ?? "0",
  credits: ({ billedCredits }) => billedCredits,
  requests: ({ requests }) => String(requests),
  tokens: ({ tokens }) => String(tokens),
  failed: ({ failed }) => String(failed),
};

/** A column of the chart, and a row of its table. */
type Day = { day: string; amounts: string[] };

/** Shows each model's daily usage as a stacked chart, with its figures as a table. */
export function ModelChart({
  overview,
  range,
  metric,
  runsPath,
  table = true,
}: {
  overview: Overview & { series: UsageOfModel[] };
  range: Pick<Range, "from" | "to" | "today">;
  metric: AdditiveMetric;
  runsPath: string;
  /** False if the page links to another page with the figures. */
  table?: boolean;
}) {
  const { label, mark, whole } = metricViews[metric];
  const { names, days } = groupDaysByModel(overview, { range, metric });
  const every = { 1: "day", 7: "week", 14: "two-week period" }[overview.daysEach] ?? "day";
  const caption = `${label} by model and ${every} (UTC)`;
  const first = every === "day" ? "Day (UTC)" : `${every === "week" ? "Week" : "Two weeks"} from (UTC)`;
  return (
    <>
      <StackedColumnChart
        label={`${caption}; ${table ? "the table below" : "the table of Usage"} has the same figures`}
        series={names}
        columns={days.map(({ day, amounts }) => {
          const { first: from, last: to, isInProgress } = periodOf(range, { first: day, days: overview.daysEach });
          return {
            label: formatDay(day),
            href: linkToRuns(runsPath, { from, to }),
            isInProgress,
            parts: amounts.map((amount, index) => ({
              value: Number(amount),
              text: formatMetricAmount(amount, metric),
              // Without the table, and in the longest ranges, the links of up to 210 parts would be most of the page.
              href:
                table && overview.daysEach < 14 && names[index] !== others
                  ? linkToRuns(runsPath, { from, to, model: names[index] })
                  : undefined,
            })),
          };
        })}
        formatMark={mark}
        whole={whole}
      />
      {table ? (
        <details className="pt-4">
          <summary className="cursor-pointer text-muted">{`Show ${caption.charAt(0).toLowerCase()}${caption.slice(1)} as a table`}</summary>
          <div className="pt-3">
            <DataTable
              caption={caption}
              columns={[
                { label: first, cell: ({ day }: Day) => formatDay(day) },
                ...names.map(columnsOf({ days, metric })),
              ]}
              rows={days.filter(({ amounts }) => amounts.some((amount) => Number(amount) > 0)).reverse()}
              rowKey={({ day }) => day}
              empty="Nothing was used in this range."
              from="lg"
            />
          </div>
        </details>
      ) : null}
    </>
  );
}

function columnsOf({ days, metric }: { days: readonly Day[]; metric: AdditiveMetric }) {
  return (label: string, index: number): DataColumn<Day> => {
    const decimals = columnDecimals(days.map(({ amounts }) => amounts[index] ?? "0"));
    const cell = ({ amounts }: Day): ReactNode => {
      const amount = amounts[index] ?? "0";
      if (metric === "spend") return <Usd amount={amount} decimals={decimals} />;
      return metric === "credits" ? <Credits amount={amount} decimals={decimals} /> : formatCount(Number(amount));
    };
    return { label, fullLabel: shortenName(label), numeric: true, cell };
  };
}

function formatMetricAmount(amount: string, metric: AdditiveMetric): string {
  if (metric === "spend") return formatUsd(amount);
  return metric === "credits" ? formatCredits(amount) : formatCount(Number(amount));
}

/**
 * Returns the chart's series names and columns. The names are in the order of `rows`, followed by "Other models". Each
 * column is a day or period of the range, and has one amount per name.
 */
export function groupDaysByModel(
  { series, rows, daysEach }: Pick<Overview, "rows" | "daysEach"> & { series: UsageOfModel[] },
  { range, metric }: { range: { from: string; to: string }; metric: AdditiveMetric },
): { names: string[]; days: Day[] } {
  const named = new Set(series.map(({ model }) => model));
  const names = rows.flatMap(({ key }) => (named.has(key) ? [key] : []));
  if (named.has(null)) names.push(others);
  const amounts = new Map(
    series.map((usage) => [`${usage.day} ${usage.model ?? others}`, amountReaders[metric](usage)]),
  );
  const first = Date.parse(range.from);
  const columns = Math.ceil((Date.parse(range.to) - first) / dayMs / daysEach);
  const days = Array.from({ length: columns }, (_, column) => {
    const offset = column * daysEach;
    return {
      day: dayAfter(range.from, offset),
      amounts: names.map((name) => amounts.get(`${offset} ${name}`) ?? "0"),
    };
  });
  return { names, days };
}
