import { type Range, readRange } from "../range.ts";
import { percentOf } from "./difference.ts";
import type { ReconciledMonth } from "./provider-import-schema.ts";

/** How the three amounts of a cell stand to each other. */
export type CellState =
  | "open"
  | "nothing_reported"
  | "costs_missing"
  | "invoice_missing"
  | "invoice_differs"
  | "metering_differs"
  | "rounding"
  | "agrees";

/** A month of a provider, of all its accounts or of one; amounts are exact texts. */
export interface ReconciledCell {
  /** YYYY-MM, of UTC. */
  month: string;
  provider: string;
  /** `all`: the provider's line. Null: records that name no account. */
  account: { of: "all" } | { of: "one"; id: string | null };
  meteredUsd: string | null;
  importedUsd: string;
  invoicedUsd: string;
  importedDifferenceUsd: string | null;
  importedDifferencePercent: string | null;
  invoicedDifferenceUsd: string;
  invoicedDifferencePercent: string | null;
  importedRecords: number;
  invoices: number;
  state: CellState;
  /** Whether it says what the provider's line says already. */
  repeats: boolean;
}

/** What a state is called, and what to do about it. */
export const stateWords: Record<CellState, { name: string; tone: "good" | "warn" | "neutral"; next: string }> = {
  open: {
    name: "Month is not over",
    tone: "neutral",
    next: "Compare it once the month is over and its invoice is here.",
  },
  nothing_reported: {
    name: "Nothing reported",
    tone: "warn",
    next: "Import what the provider says these runs cost, and enter its invoice.",
  },
  costs_missing: {
    name: "Costs missing",
    tone: "warn",
    next: "Import the provider’s costs of the month, so that its invoice can be checked.",
  },
  invoice_missing: {
    name: "Invoice missing",
    tone: "warn",
    next: "Enter the invoice when the provider has issued it.",
  },
  invoice_differs: {
    name: "Invoice differs",
    tone: "warn",
    next: "Look for days that were not imported or were corrected since; for what is left ask the provider.",
  },
  metering_differs: {
    name: "Metering differs",
    tone: "warn",
    next: "Look for calls that went past the gateway, runs whose usage was estimated, and prices that changed.",
  },
  rounding: {
    name: "Matches (rounding)",
    tone: "good",
    next: "Nothing to do: the amounts differ by less than half a cent.",
  },
  agrees: { name: "Agrees", tone: "good", next: "Nothing to do." },
};

/** A provider's month and its accounts, line by line. Accounts are listed where there is more to say than the line has. */
export function cellsOf(record: ReconciledMonth, { today }: { today: string }): ReconciledCell[] {
  const { month, provider, accounts } = record;
  const open = month >= today.slice(0, 7);
  const whole = { ...cellOf({ ...record, account: { of: "all" }, open }), repeats: false };
  const named = accounts.length > 1 || accounts.some(({ accountId }) => accountId !== null);
  return named
    ? [
        whole,
        ...accounts.map(({ accountId, runs, ...amounts }) => {
          const account = { of: "one", id: accountId } as const;
          const cell = cellOf({ ...amounts, runs: runs ?? 0, month, provider, account, open });
          return { ...cell, repeats: cell.state === whole.state };
        }),
      ]
    : [whole];
}

type Amounts = Omit<ReconciledCell, "state" | "repeats" | "importedDifferencePercent" | "invoicedDifferencePercent"> & {
  runs: number;
  open: boolean;
};

function cellOf({ runs, open, ...cell }: Amounts): Omit<ReconciledCell, "repeats"> {
  const { meteredUsd, importedDifferenceUsd } = cell;
  return {
    ...cell,
    importedDifferencePercent:
      meteredUsd === null || importedDifferenceUsd === null ? null : percentOf(importedDifferenceUsd, meteredUsd),
    invoicedDifferencePercent: percentOf(cell.invoicedDifferenceUsd, cell.importedUsd),
    state: open ? "open" : stateOf({ ...cell, runs }),
  };
}

function stateOf(cell: Omit<Amounts, "open">): CellState {
  if (cell.importedRecords === 0 && cell.invoices === 0) {
    return cell.meteredUsd !== null && isZero(cell.meteredUsd) ? "agrees" : "nothing_reported";
  }
  if (cell.importedRecords === 0) return "costs_missing";
  if (cell.invoices === 0) return "invoice_missing";
  if (!rounds(cell.invoicedDifferenceUsd)) return "invoice_differs";
  // What is not metered here at all, or is hidden, has nothing to differ from.
  const metered = cell.runs > 0 ? (cell.importedDifferenceUsd ?? "0") : "0";
  if (!rounds(metered)) return "metering_differs";
  return isZero(cell.invoicedDifferenceUsd) && isZero(metered) ? "agrees" : "rounding";
}

/** Whether an amount is less than half a cent, either way. */
function rounds(amount: string): boolean {
  return Math.abs(Number(amount)) < 0.005;
}

function isZero(amount: string): boolean {
  return /^-?0*(\.0*)?$/.test(amount);
}

const dayMs = 24 * 60 * 60 * 1000;
/** As the database: twelve months of a leap year. */
const maxWindowDays = 366;

/**
 * The whole months that a range touches: a month in part would miss its invoice. The first ones are left out where they
 * would make more than 366 days.
 * @returns RFC 3339, half-open
 */
export function wholeMonths({ from, to }: Pick<Range, "from" | "to">): { from: string; to: string } {
  const last = new Date(Date.parse(to) - 1);
  const end = Date.UTC(last.getUTCFullYear(), last.getUTCMonth() + 1);
  const first = new Date(from);
  let begin = Date.UTC(first.getUTCFullYear(), first.getUTCMonth());
  while ((end - begin) / dayMs > maxWindowDays) {
    const month = new Date(begin);
    begin = Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1);
  }
  return { from: new Date(begin).toISOString(), to: new Date(end).toISOString() };
}

/** The first and the last day of a month. */
export function daysOfMonth(month: string): { first: string; last: string } {
  const [year = 0, number = 1] = month.split("-").map(Number);
  return { first: `${month}-01`, last: new Date(Date.UTC(year, number, 0)).toISOString().slice(0, 10) };
}

const parameters = ["range", "from", "to"];

/** Reads the months off an address; without any, those of the last 365 days. */
export function readReconciledRange(
  url: URL,
  { now }: { now: Date },
): { range: Range; months: { from: string; to: string }; today: string } {
  const asked = new URL(url);
  if (parameters.every((name) => !asked.searchParams.get(name))) asked.searchParams.set("range", "365d");
  const range = readRange(asked, { now });
  return { range, months: wholeMonths(range), today: now.toISOString().slice(0, 10) };
}
