import { median } from "../statistics.ts";

/**
 * One figure beside its goal (docs/performance.md). Judged by the median of its samples: one a round, or the one of all
 * that counts.
 */
export type Row = {
  /** Stable, for those who compare files of results. */
  id: string;
  what: string;
  /** Absent where a figure only explains another. */
  goal?: { atMost: number } | { atLeast: number };
  unit: string;
  digits: number;
  samples: readonly number[];
  /** How they were taken otherwise than the goal says: then it is not met. Missed it may be where that was easier. */
  unlike?: { how: string; easier: boolean } | undefined;
  /** What else there is to know; or why there are no samples. */
  note?: string;
};

export type Verdict = "met" | "missed" | "not measured" | "";

/** Whether the goal is met; empty where there is none. */
export function verdictOf({ goal, samples, unlike }: Row): Verdict {
  if (!goal) return "";
  const figure = median(samples);
  if (Number.isNaN(figure)) return "not measured";
  const met = "atMost" in goal ? figure <= goal.atMost : figure >= goal.atLeast;
  if (unlike && (met || !unlike.easier)) return "not measured";
  return met ? "met" : "missed";
}

/** What stands below a row: first what its goal cannot be judged by. */
export function noteText({ unlike, note }: Row): string {
  return [unlike && `not as the goal has it: ${unlike.how}`, note].filter(Boolean).join("; ");
}

/** The goal as people write it. */
export function goalText({ goal, unit, digits }: Row): string {
  if (!goal) return "";
  const [sign, value] = "atMost" in goal ? ["≤", goal.atMost] : ["≥", goal.atLeast];
  // A peer that was not measured sets none.
  if (Number.isNaN(value)) return "";
  const short = Number.isInteger(value) ? formatNumber(value, 0) : formatNumber(value, digits);
  return withUnit(`${sign} ${short}`, unit);
}

/** `median (lowest–highest)`, or the one figure that there is. */
export function figureText({ samples, unit, digits }: Row): string {
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
