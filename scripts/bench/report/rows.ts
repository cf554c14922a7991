import { median } from "../statistics.ts";

/** One figure and its goal, judged by the median of its samples. */
export type Row = {
  /** Stable across runs. */
  id: string;
  what: string;
  /** Absent if the figure only explains another figure. */
  goal?: { atMost: number } | { atLeast: number };
  unit: string;
  digits: number;
  samples: readonly number[];
  /** What the figure consists of, or why it is missing. */
  note?: string;
};

/** Returns whether the goal is met, or an empty text for a row without a goal. */
export function verdictOf({ goal, samples }: Row): "met" | "missed" | "not measured" | "" {
  if (!goal) return "";
  const figure = median(samples);
  if (Number.isNaN(figure)) return "not measured";
  const met = "atMost" in goal ? figure <= goal.atMost : figure >= goal.atLeast;
  return met ? "met" : "missed";
}

export function goalText({ goal, unit, digits }: Row): string {
  if (!goal) return "";
  const [sign, value] = "atMost" in goal ? ["≤", goal.atMost] : ["≥", goal.atLeast];
  return withUnit(`${sign} ${formatNumber(value, Number.isInteger(value) ? 0 : digits)}`, unit);
}

/** Returns `median (lowest–highest)`, or the single figure. */
export function figureText({ samples, unit, digits }: Pick<Row, "samples" | "unit" | "digits">): string {
  if (samples.length === 0) return "—";
  const [middle, low, high] = [median(samples), Math.min(...samples), Math.max(...samples)].map((value) =>
    formatNumber(value, digits),
  );
  return withUnit(low === high ? `${middle}` : `${middle} (${low}–${high})`, unit);
}

function formatNumber(value: number, digits: number): string {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function withUnit(text: string, unit: string): string {
  return unit === "" ? text : `${text} ${unit}`;
}
