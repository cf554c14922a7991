import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { CsvColumn } from "../../http/csv.ts";
import { problem } from "../../http/problem.ts";
import { amountText } from "../../ui/format-amount.ts";
import { dayAfter, type Range } from "../range.ts";
import { readStudio, type StudioReader } from "../studio-reader.ts";
import { type OverviewDimension, otherLabelsKey } from "./overview-metric.ts";
import { usageSums } from "./usage.ts";

const count = z.number().int();
const sums = z.object({
  ...usageSums,
  /** Quantiles are accurate to within 19 %, the width of a bucket. */
  latencyP50Ms: count.nullable(),
  latencyP95Ms: count.nullable(),
  firstTokenP50Ms: count.nullable(),
  firstTokenP95Ms: count.nullable(),
});
export type UsageSums = z.infer<typeof sums>;

export const overviewAnswer = z.object({
  outcome: z.literal("listed"),
  everUsed: z.boolean(),
  totals: sums.extend({ otherDeductions: amountText, usedCredits: amountText }),
  previous: sums.extend({ usedCredits: amountText }),
  rows: z.array(
    z.object({ key: z.string(), name: z.string().nullable(), now: sums.nullable(), before: sums.nullable() }),
  ),
  leftOut: count,
  /**
   * The usage by model for each day or group of days. The six largest models are listed separately. A null model is
   * the sum of all others.
   */
  series: z
    .array(
      z.object({
        day: count,
        model: z.string().nullable(),
        requests: count,
        failed: count,
        tokens: count,
        amountUsd: amountText.nullable(),
        billedCredits: amountText,
      }),
    )
    .nullable(),
  deductions: z.record(z.string(), amountText),
});

/**
 * One row, with its figures in the current and the previous range. `otherDeductions` is the number of credits deducted
 * for reasons other than runs.
 */
export interface OverviewRow {
  key: string;
  label: string;
  now: UsageSums;
  before: UsageSums | null;
  otherDeductions: string | null;
}

export type UsageOfModel = NonNullable<z.infer<typeof overviewAnswer>["series"]>[number];

export type Overview = Omit<z.infer<typeof overviewAnswer>, "outcome" | "rows" | "deductions"> & {
  /** Days are ordered newest first, and other rows by cost, most expensive first. */
  rows: OverviewRow[];
  /** The number of days that each row covers, if the overview is grouped by day. */
  daysEach: number;
};

/**
 * Returns the maximum number of rows on a page, so that the page fits in 100 KB of HTML. The maximum for days is high
 * enough for the longest range.
 */
export function getMaxRows(by: OverviewDimension): number {
  return by === "day" ? 100 : 50;
}

/** The maximum number of rows in a file. */
const fileRows = 10_000;

const dayMs = 24 * 60 * 60 * 1000;
const noUsage: UsageSums = {
  requests: 0,
  failed: 0,
  refused: 0,
  inputTokens: 0,
  outputTokens: 0,
  amountUsd: "0",
  billedCredits: "0",
  unmeteredCredits: "0",
  averageLatencyMs: null,
  latencyP50Ms: null,
  latencyP95Ms: null,
  firstTokenP50Ms: null,
  firstTokenP95Ms: null,
};

/** Returns how many days one column covers. Columns cover more days in long ranges, and in charts stacked by model. */
export function chooseDaysPerColumn({ from, to }: { from: string; to: string }, by: OverviewDimension): number {
  const days = (Date.parse(to) - Date.parse(from)) / dayMs;
  if (by === "model") return days > 92 ? 14 : days > 31 ? 7 : 1;
  return days > 92 ? 7 : 1;
}

/**
 * Returns a workspace's usage in a range by one dimension, compared to the previous range. Credits deducted without a
 * run are listed separately from credits billed for runs, so that no credit is counted twice (docs/costs.md, Usage and
 * credits).
 * @throws Response 403, 503 like readStudio
 */
export async function readOverview(
  context: AppLoadContext,
  options: OverviewQuery & { reader: StudioReader; maxRows: number },
): Promise<Overview> {
  const { reader, maxRows, ...query } = options;
  const args = { ...overviewArguments(query), grouped_by: query.by, max_rows: maxRows };
  return overviewOf(await readStudio(context, { reader, name: "read_overview", args, schema: overviewAnswer }), query);
}

interface OverviewQuery {
  range: Range;
  by: OverviewDimension;
  daysEach: number;
}

export function overviewArguments({ range, daysEach }: Omit<OverviewQuery, "by">) {
  return {
    range_from: range.from,
    range_to: range.to,
    previous_from: range.previous.from,
    previous_to: range.previous.to,
    days_each: daysEach,
  };
}

/** Returns the overview in an answer of the database. */
export function overviewOf(
  { outcome: _, deductions, ...overview }: z.output<typeof overviewAnswer>,
  { range, by, daysEach }: OverviewQuery,
): Overview {
  const zero = overview.totals.amountUsd === null ? { ...noUsage, amountUsd: null } : noUsage;
  const labels = labelRows(overview.rows, by);
  const rows =
    by === "day"
      ? listDays({ ...overview, deductions, range, daysEach, zero })
      : overview.rows.map(({ key, now, before }, index) => ({
          key,
          label: labels[index] ?? key,
          now: now ?? zero,
          before,
          otherDeductions: null,
        }));
  return { ...overview, rows, daysEach };
}

/**
 * Returns all rows of a range, without combining days into longer periods. Fails if there are too many rows, rather
 * than returning only some of them.
 * @throws Response 400 INVALID_REQUEST above the limit; 403, 503 like readStudio
 */
export async function readWholeOverview(
  context: AppLoadContext,
  { limit = fileRows, ...query }: { reader: StudioReader; range: Range; by: OverviewDimension; limit?: number },
): Promise<OverviewRow[]> {
  const { rows, leftOut } = await readOverview(context, { ...query, daysEach: 1, maxRows: limit });
  if (leftOut === 0) return rows;
  const detail = `This export has more than ${limit.toLocaleString("en")} rows. Choose a shorter range.`;
  throw problem("INVALID_REQUEST", { requestId: context.requestId, detail });
}

/** Returns a label for each row. Rows with the same name, such as former members, also get the end of their key. */
export function labelRows(rows: readonly { key: string; name: string | null }[], by: OverviewDimension): string[] {
  const counts = new Map<string | null, number>();
  for (const { name } of rows) counts.set(name, (counts.get(name) ?? 0) + 1);
  return rows.map(({ key, name }) => {
    if (name === null) return labelOf(key, by);
    return counts.get(name) === 1 ? name : `${name} (${key.slice(-6)})`;
  });
}

function labelOf(key: string, by: OverviewDimension): string {
  // Runs have a model and a feature. Refused calls may name models that don't exist, or too many features.
  if (key === "") return by === "model" ? "Unknown models" : by === "feature" ? "Other features" : `No ${by}`;
  return by === "label" && key === otherLabelsKey ? "Other labels" : key;
}

/**
 * Returns every day or period of the range, including those without usage. If the previous range is longer, omits its
 * surplus days.
 */
function listDays({
  rows,
  deductions,
  range,
  daysEach,
  zero,
}: Pick<z.infer<typeof overviewAnswer>, "rows" | "deductions"> & {
  range: Range;
  daysEach: number;
  zero: UsageSums;
}): OverviewRow[] {
  const found = new Map(rows.map((row) => [row.key, row]));
  const first = Date.parse(range.from);
  const days = (Date.parse(range.to) - first) / dayMs;
  return Array.from({ length: Math.ceil(days / daysEach) }, (_, index) => {
    const key = String(index * daysEach);
    const label = dayAfter(range.from, index * daysEach);
    const { now, before } = found.get(key) ?? { now: null, before: null };
    return { key, label, now: now ?? zero, before, otherDeductions: deductions[key] ?? null };
  }).reverse();
}

/** The columns of the overview's CSV file. Amounts are exact. */
export function overviewColumns(by: OverviewDimension): CsvColumn<OverviewRow>[] {
  const ofSums = (name: string, value: (sums: UsageSums) => string | number | null): CsvColumn<OverviewRow>[] => [
    { name, value: (row) => value(row.now) },
    { name: `${name}_before`, value: (row) => row.before && value(row.before) },
  ];
  return [
    { name: by, value: (row) => row.label },
    ...(by === "key" || by === "app" || by === "member"
      ? [{ name: `${by}_id`, value: (row: OverviewRow) => row.key }]
      : []),
    ...ofSums("cost_usd", ({ amountUsd }) => amountUsd),
    ...ofSums("billed_credits", ({ billedCredits }) => billedCredits),
    ...(by === "day" ? [{ name: "other_credits", value: (row: OverviewRow) => row.otherDeductions ?? "0" }] : []),
    ...ofSums("unmetered_credits", ({ unmeteredCredits }) => unmeteredCredits),
    ...ofSums("requests", ({ requests }) => requests),
    ...ofSums("failed", ({ failed }) => failed),
    ...ofSums("refused", ({ refused }) => refused),
    ...ofSums("input_tokens", ({ inputTokens }) => inputTokens),
    ...ofSums("output_tokens", ({ outputTokens }) => outputTokens),
    ...ofSums("latency_p50_ms", ({ latencyP50Ms }) => latencyP50Ms),
    ...ofSums("latency_p95_ms", ({ latencyP95Ms }) => latencyP95Ms),
    ...ofSums("first_token_p50_ms", ({ firstTokenP50Ms }) => firstTokenP50Ms),
    ...ofSums("first_token_p95_ms", ({ firstTokenP95Ms }) => firstTokenP95Ms),
  ];
}
