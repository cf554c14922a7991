import { formatDay } from "../../http/date-text.ts";
import { countOf, formatExactUsd } from "../../ui/format-amount.ts";
import type { Budget, BudgetPeriod } from "./budget-schema.ts";

/** The window in which a budget counts. Both ends are null for periods without a reset. */
export interface BudgetWindow {
  period: BudgetPeriod;
  timeZone: string;
  startsAt: string | null;
  endsAt: string | null;
}

/** Texts for each period: a form's choice, a budget's name before "of", and what an amount and its spending are called. */
export const periodWords = {
  day: { choice: "Day", budget: "Daily budget", rate: "a day", current: "today" },
  week: { choice: "Week, from Monday", budget: "Weekly budget", rate: "a week", current: "this week" },
  month: { choice: "Month", budget: "Monthly budget", rate: "a month", current: "this month" },
  total: { choice: "In total, without a reset", budget: "Total budget", rate: "in total", current: "in total" },
  concurrent: {
    choice: "Concurrent calls",
    budget: "Limit of concurrent calls",
    rate: "at the same time",
    current: "in progress",
  },
} as const satisfies Record<BudgetPeriod, object>;

/** Returns whether a budget resets with the UTC month, as most do. */
export function isUtcMonth({ period, timeZone }: BudgetWindow): boolean {
  return period === "month" && timeZone === "UTC";
}

/**
 * Describes when a budget resets, in its own time zone: "resets 00:00 Europe/Berlin (in 5 h)". Names the date unless it
 * is the end of a day.
 * @returns null for periods without a reset
 */
export function resetWords({ period, endsAt, ...budget }: BudgetWindow, now: Date): string | null {
  if (endsAt === null) return null;
  const { date, time, timeZone } = localTime(new Date(endsAt), budget.timeZone);
  const at = period === "day" ? time : `${formatDay(date)}, ${time}`;
  return `resets ${at} ${timeZone} (${timeUntil(endsAt, now)})`;
}

/** Describes the time until a reset. Uses hours up to two days, because a local day has 23 to 25 of them. */
export function timeUntil(at: string, now: Date): string {
  const minutes = Math.ceil((Date.parse(at) - now.getTime()) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `in ${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `in ${hours} h` : `in ${Math.round(hours / 24)} days`;
}

/** A budget that was just saved or removed, with the name of its subject. */
export interface SavedBudget {
  name: string | null;
  period: BudgetPeriod;
  /** Null if it was removed. */
  budget: Pick<Budget, "limitUsd" | "maxCalls"> | null;
  /** Whether the subject has other budgets. */
  hasOthers: boolean;
}

/** Confirms that a budget was saved or removed. */
export function savedWords({ name, period, budget, hasOthers }: SavedBudget): string {
  if (name === null) return "Budget changed.";
  if (budget === null) {
    const removed = period === "concurrent" || hasOthers ? lowerFirst(periodWords[period].budget) : "budget";
    return `${name} no longer has a ${removed}.`;
  }
  if (period === "concurrent") return `Limit saved: ${countOf(budget.maxCalls ?? 0, "concurrent call")} for ${name}.`;
  const rate = periodWords[period].rate.replace(/^a /, "per ");
  return `Budget saved: ${formatExactUsd(budget.limitUsd ?? "0")} ${rate} for ${name}.`;
}

/** Describes the stored settings of a budget that somebody else changed, after "Someone changed this budget". */
export function settingsWords(
  period: BudgetPeriod,
  {
    limitUsd,
    maxCalls,
    timeZone,
    thresholds,
    reservesExpected,
  }: Pick<Budget, "limitUsd" | "maxCalls" | "timeZone" | "thresholds" | "reservesExpected">,
): string {
  if (limitUsd === null && maxCalls === null) return "it was removed";
  if (maxCalls !== null) return `it is ${countOf(maxCalls, "call")} now`;
  const zone = timeZone === "UTC" || period === "total" ? "" : ` in ${timeZone}`;
  const warnings =
    thresholds.join(", ") === "50, 80, 100"
      ? ""
      : ` with ${thresholds.length === 0 ? "no warnings" : `warnings at ${thresholds.join(", ")}%`}`;
  const reservations = reservesExpected ? ", and reserves less for streamed requests," : "";
  return `it is ${formatExactUsd(limitUsd ?? "0")}${zone}${warnings}${reservations} now`;
}

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

interface LocalFormat {
  format: Intl.DateTimeFormat;
  timeZone: string;
}

// Kept, because creating a formatter takes longer than rendering a budget. The number of time zones is limited.
const localFormats = new Map<string, LocalFormat>();

/** Returns a time's local date (YYYY-MM-DD) and time (HH:MM), in UTC if this runtime doesn't know the time zone. */
function localTime(at: Date, name: string): { date: string; time: string; timeZone: string } {
  const { format, timeZone } = localFormats.get(name) ?? createLocalFormat(name);
  localFormats.set(name, { format, timeZone });
  const [date = "", time = ""] = format.format(at).split(" ");
  return { date, time, timeZone };
}

function createLocalFormat(timeZone: string): LocalFormat {
  const style = { dateStyle: "short", timeStyle: "short" } as const;
  try {
    return { format: new Intl.DateTimeFormat("sv-SE", { ...style, timeZone }), timeZone };
  } catch {
    return { format: new Intl.DateTimeFormat("sv-SE", { ...style, timeZone: "UTC" }), timeZone: "UTC" };
  }
}
