import { percentOf } from "./difference.ts";
import type { ReconciledMonth } from "./provider-import-schema.ts";

/** The result of comparing a cell's three amounts. */
export type CellState =
  | "open"
  | "nothing_reported"
  | "costs_missing"
  | "invoice_missing"
  | "invoice_differs"
  | "metering_differs"
  | "billed_together"
  | "rounding"
  | "agrees";

/** A provider's month, for all of its accounts or for one. Amounts are exact strings. */
export interface ReconciledCell {
  /** YYYY-MM, in UTC. */
  month: string;
  provider: string;
  /** `all` stands for all of the provider's accounts together. A null `id` stands for records without an account. */
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
  /**
   * Whether an account's line has the same state as the provider's line. If so, the page shows the next step only on
   * the provider's line.
   */
  repeats: boolean;
}

/** The display name of each state, and what to do about it. */
export const stateTexts: Record<CellState, { name: string; tone: "good" | "warn" | "neutral"; next: string }> = {
  open: {
    name: "Month in progress",
    tone: "neutral",
    next: "Check again when the month has ended and its invoice has arrived.",
  },
  nothing_reported: {
    name: "Nothing reported",
    tone: "warn",
    next: "Import the provider’s costs and enter its invoice.",
  },
  costs_missing: {
    name: "Costs missing",
    tone: "warn",
    next: "Import the provider’s costs to check the invoice against them.",
  },
  invoice_missing: {
    name: "Invoice missing",
    tone: "warn",
    next: "Enter the invoice when the provider has issued it.",
  },
  invoice_differs: {
    name: "Invoice differs",
    tone: "warn",
    next: "Import the costs again to add missing or corrected days. If the provider corrected the invoice or sent a credit note, enter it. Ask the provider about any remaining difference.",
  },
  metering_differs: {
    name: "Metering differs",
    tone: "warn",
    next: "Look for requests made outside the gateway, runs with estimated usage, or changed prices.",
  },
  billed_together: {
    name: "Billed together",
    tone: "neutral",
    next: "One invoice covers several accounts. The provider’s line compares it with all of their costs.",
  },
  rounding: {
    name: "Matches (rounding)",
    tone: "good",
    next: "Nothing to do: the amounts differ by less than half a cent.",
  },
  agrees: { name: "Matches", tone: "good", next: "Nothing to do." },
};

/**
 * Returns the next step for a cell. If nothing was metered and the invoice matches the imported costs, says that
 * instead.
 */
export function nextStep({ state, meteredUsd, invoicedUsd }: ReconciledCell): string {
  const unmetered = state === "agrees" && meteredUsd !== null && isZero(meteredUsd) && !isZero(invoicedUsd);
  return unmetered ? "The invoice matches imported costs; nothing was metered here." : stateTexts[state].next;
}

/**
 * Returns the lines of a provider's month: one for the provider and one for each account. Omits the accounts' lines if
 * no account is named.
 */
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
          const state = isBilledTogether(cell, { whole: whole.state, accounts }) ? "billed_together" : cell.state;
          return { ...cell, state, repeats: state === whole.state };
        }),
      ]
    : [whole];
}

/** Returns whether a cell's costs or invoice are missing only because they are recorded on another account's line. */
function isBilledTogether(
  { state, account }: Pick<ReconciledCell, "state" | "account">,
  { whole, accounts }: { whole: CellState; accounts: ReconciledMonth["accounts"] },
): boolean {
  if (state !== "costs_missing" && state !== "invoice_missing") return false;
  if (whole === "agrees" || whole === "rounding") return true;
  const isUnnamed = account.of === "one" && account.id === null;
  // An invoice without an account covers all accounts that have no invoice of their own.
  return isUnnamed
    ? state === "costs_missing" && accounts.some(({ importedRecords }) => importedRecords > 0)
    : state === "invoice_missing" && accounts.some(({ accountId, invoices }) => accountId === null && invoices > 0);
}

type CellAmounts = Omit<
  ReconciledCell,
  "state" | "repeats" | "importedDifferencePercent" | "invoicedDifferencePercent"
> & {
  runs: number;
  open: boolean;
};

function cellOf({ runs, open, ...cell }: CellAmounts): Omit<ReconciledCell, "repeats"> {
  const { meteredUsd, importedDifferenceUsd } = cell;
  return {
    ...cell,
    importedDifferencePercent:
      meteredUsd === null || importedDifferenceUsd === null ? null : percentOf(importedDifferenceUsd, meteredUsd),
    invoicedDifferencePercent: percentOf(cell.invoicedDifferenceUsd, cell.importedUsd),
    state: open ? "open" : stateOf({ ...cell, runs }),
  };
}

function stateOf(cell: Omit<CellAmounts, "open">): CellState {
  if (cell.importedRecords === 0 && cell.invoices === 0) {
    return cell.meteredUsd !== null && isZero(cell.meteredUsd) ? "agrees" : "nothing_reported";
  }
  if ([cell.meteredUsd ?? "0", cell.importedUsd, cell.invoicedUsd].every(isZero)) return "agrees";
  if (cell.importedRecords === 0) return "costs_missing";
  if (cell.invoices === 0 && !isZero(cell.importedUsd)) return "invoice_missing";
  if (!isBelowHalfCent(cell.invoicedDifferenceUsd)) return "invoice_differs";
  // If the cell has no metered runs, or metering is hidden, it has no metering difference.
  const metered = cell.runs > 0 ? (cell.importedDifferenceUsd ?? "0") : "0";
  if (!isBelowHalfCent(metered)) return "metering_differs";
  return isZero(cell.invoicedDifferenceUsd) && isZero(metered) ? "agrees" : "rounding";
}

/** Returns whether an amount is less than half a cent in either direction. */
export function isBelowHalfCent(amount: string): boolean {
  return Math.abs(Number(amount)) < 0.005;
}

function isZero(amount: string): boolean {
  return /^-?0*(\.0*)?$/.test(amount);
}

/** A table line. `only` is the line's account if the line has a single account, otherwise null. */
export interface ReconciledLine {
  cell: ReconciledCell;
  only: string | null;
}

/**
 * Returns the lines of a page. A provider's only account is merged into the provider's line if it only repeats that
 * line.
 */
export function linesOf(cells: readonly ReconciledCell[]): ReconciledLine[] {
  const accountsOf = (provider: string) =>
    cells.filter((cell) => cell.provider === provider && cell.account.of === "one");
  return cells.flatMap((cell): ReconciledLine[] => {
    const [one, ...others] = accountsOf(cell.provider);
    const only = one?.account.of === "one" && one.repeats && others.length === 0 ? one.account.id : null;
    if (only === null) return [{ cell, only }];
    return cell.account.of === "all" ? [{ cell, only }] : [];
  });
}
