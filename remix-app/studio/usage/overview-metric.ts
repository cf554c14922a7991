import { z } from "zod";
import { formatCount, formatCredits, formatMs, formatShortCount, formatUsd } from "../../ui/format-amount.ts";
import type { OverviewRow, UsageSums } from "./overview.ts";

/** The metrics that the overview's chart can show. */
const metrics = ["spend", "credits", "requests", "tokens", "failed", "refused", "latency"] as const;
export type Metric = (typeof metrics)[number];
const metricSchema = z.enum(metrics);

export interface MetricView {
  label: string;
  /** Returns the value to draw. */
  value: (sums: UsageSums) => number;
  text: (sums: UsageSums) => string;
  /** Formats the label of an axis mark; `top` is the highest mark. */
  mark: (value: number, top: number) => string;
  /** Whether the metric has only whole values, such as counts. */
  whole: boolean;
}

const sumTokens = ({ inputTokens, outputTokens }: UsageSums) => inputTokens + outputTokens;

export const metricViews: Record<Metric, MetricView> = {
  spend: {
    label: "Spend",
    value: ({ amountUsd }) => Number(amountUsd),
    text: ({ amountUsd }) => formatUsd(amountUsd ?? "0"),
    mark: (value, top) => `$${top < 10 ? value.toFixed(countAxisDecimals(top)) : shortAmount(value)}`,
    whole: false,
  },
  credits: {
    label: "Credits",
    value: ({ billedCredits }) => Number(billedCredits),
    text: ({ billedCredits }) => `${formatCredits(billedCredits)} credits`,
    mark: shortAmount,
    whole: false,
  },
  requests: {
    label: "Requests",
    value: ({ requests }) => requests,
    text: ({ requests }) => `${formatCount(requests)} requests`,
    mark: formatShortCount,
    whole: true,
  },
  tokens: {
    label: "Tokens",
    value: sumTokens,
    text: (sums) => `${formatCount(sumTokens(sums))} tokens`,
    mark: formatShortCount,
    whole: true,
  },
  failed: {
    label: "Failures",
    value: ({ failed }) => failed,
    text: ({ failed }) => `${formatCount(failed)} failed`,
    mark: formatShortCount,
    whole: true,
  },
  refused: {
    label: "Refused",
    value: ({ refused }) => refused ?? 0,
    text: ({ refused }) => `${formatCount(refused ?? 0)} refused`,
    mark: formatShortCount,
    whole: true,
  },
  latency: {
    label: "Latency (p95)",
    value: ({ latencyP95Ms }) => latencyP95Ms ?? 0,
    text: ({ latencyP95Ms }) => (latencyP95Ms === null ? "no call" : formatMs(latencyP95Ms)),
    mark: formatMs,
    whole: true,
  },
};

function shortAmount(value: number): string {
  return value >= 1 || value === 0 ? formatShortCount(value) : String(Number(value.toPrecision(2)));
}

/**
 * Returns how many decimals the labels of a dollar axis need: at least two, and more if its four steps or fewer are below
 * a cent.
 */
function countAxisDecimals(top: number): number {
  return Math.max(2, -Math.floor(Math.log10(top / 4) + 1e-9));
}

/** Returns the available metrics. Spend is included only if the workspace shows provider costs. */
export function metricsShown({ costVisible }: { costVisible: boolean }): Metric[] {
  return metrics.filter((metric) => costVisible || metric !== "spend");
}

/** Reads the metric from query parameters. Defaults to the first available metric. */
export function readMetric(parameters: URLSearchParams, { costVisible }: { costVisible: boolean }): Metric {
  const shown = metricsShown({ costVisible });
  const metric = metricSchema.safeParse(parameters.get("show"));
  return metric.success && shown.includes(metric.data) ? metric.data : (shown[0] ?? "requests");
}

/** What a figure is compared with if the previous one was zero. */
export const fromNothing = "none before";
/** An increase by 1,000% or more. */
export const manyTimes = "over 10 times";

/** The change of a figure since the previous range. */
export interface Change {
  direction: "up" | "down" | "same";
  /** The size of the change without a sign, such as "12%", or {@link fromNothing} or {@link manyTimes}. */
  text: string;
}

/**
 * Compares the figures of two adjacent ranges.
 * @returns null if either is unknown, or both are zero
 */
export function compareFigures(now: number | string | null, before: number | string | null): Change | null {
  if (now === null || before === null) return null;
  const [to, from] = [Number(now), Number(before)];
  if (to === from) return to === 0 ? null : { direction: "same", text: "0%" };
  const direction = to > from ? "up" : "down";
  if (from === 0) return { direction, text: fromNothing };
  const percent = Math.abs(((to - from) / from) * 100);
  if (percent < 0.1) return { direction, text: "under 0.1%" };
  if (percent >= 1_000) return { direction, text: manyTimes };
  return { direction, text: `${percent.toFixed(percent < 9.95 ? 1 : 0)}%` };
}

/**
 * Compares a row's metric with the previous range. If the row did not exist in that range, compares the metric with
 * zero, but returns null for latency.
 */
export function compareRowMetric({ now, before }: Pick<OverviewRow, "now" | "before">, metric: Metric): Change | null {
  if (metric === "latency") return compareFigures(now.latencyP95Ms, before?.latencyP95Ms ?? null);
  const { value } = metricViews[metric];
  return compareFigures(value(now), before ? value(before) : 0);
}

/** The dimensions by which the overview can be grouped, one at a time. */
export const overviewDimensions = ["day", "model", "feature", "key", "app", "member", "label"] as const;
export type OverviewDimension = (typeof overviewDimensions)[number];

export const dimensionLabels: Record<OverviewDimension, string> = {
  day: "Day",
  model: "Model",
  feature: "Feature",
  key: "Key",
  app: "App",
  member: "Member",
  label: "Entity label",
};

/** Represents a day's labels beyond the 10,000 most expensive. */
export const otherLabelsKey = "*";

const dimension = z.enum(overviewDimensions).catch("day");

/** Reads the dimension from a URL. Defaults to days. */
export function readDimension(url: URL): OverviewDimension {
  return dimension.parse(url.searchParams.get("by"));
}

/** Returns the status filter of a list with the calls that a metric counts. */
export function statusOf(metric: Metric): { status?: "failed" | "refused" } {
  return metric === "failed" || metric === "refused" ? { status: metric } : {};
}
