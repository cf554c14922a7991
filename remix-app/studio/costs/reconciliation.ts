import { percentOf, subtractAmounts } from "./difference.ts";
import type { ReconciledMonth } from "./provider-import-schema.ts";

/** What a person must correct or explain, the most important first. */
export const openPointKinds = [
  "not_metered",
  "nothing_reported",
  "costs_missing",
  "invoice_missing",
  "invoice_differs",
  "metering_differs",
] as const;
export type OpenPointKind = (typeof openPointKinds)[number];

/** The result of comparing a cell's three amounts: the line's first open point, or that there is none. */
export type CellState = OpenPointKind | "open" | "billed_together" | "rounding" | "agrees";

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
  /** Null if the line has no imported costs, or if its metered cost is hidden, unknown or on other accounts' lines. */
  importedDifferenceUsd: string | null;
  importedDifferencePercent: string | null;
  /** Null if the line has no imported costs or no invoice, or if either is on other accounts' lines. */
  invoicedDifferenceUsd: string | null;
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
  not_metered: {
    name: "Not metered",
    tone: "warn",
    next: "No run was metered for these charges. Look for requests made outside the gateway, or for runs under another provider name or account.",
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
    next: "Costs or invoices of several accounts are recorded together. The provider’s line compares all of them.",
  },
  rounding: {
    name: "Matches (rounding)",
    tone: "good",
    next: "Nothing to do: the amounts differ by less than half a cent.",
  },
  agrees: { name: "Matches", tone: "good", next: "Nothing to do." },
};

/** Returns whether a person must do something about a line. */
export function isActionNeeded({ state }: Pick<ReconciledCell, "state">): boolean {
  return openPointKinds.some((kind) => kind === state);
}

/** Returns the next step for a line. For charges without any run, also says what else is missing. */
export function nextStep({ state, account, importedRecords, invoices, invoicedDifferenceUsd }: ReconciledCell): string {
  const { next } = stateTexts[state];
  if (state !== "not_metered" || account.of === "one") return next;
  if (importedRecords === 0) return `${next} The costs aren’t imported.`;
  if (invoices === 0) return `${next} No invoice is recorded.`;
  const agrees = invoicedDifferenceUsd === null || isBelowHalfCent(invoicedDifferenceUsd);
  return `${next} The invoice ${agrees ? "matches" : "differs from"} the imported costs.`;
}

/**
 * Returns the lines of a provider's month: one for the provider and one for each account. Omits the accounts' lines if
 * no account is named.
 */
export function cellsOf(record: ReconciledMonth, { today }: { today: string }): ReconciledCell[] {
  const { month, provider, accounts, ...amounts } = record;
  const line = { month, provider, isOpen: month >= today.slice(0, 7) };
  const whole = { ...cellOf({ ...line, ...amounts, account: { of: "all" } }, nothingElsewhere), repeats: false };
  const named = accounts.length > 1 || accounts.some(({ accountId }) => accountId !== null);
  if (!named) return [whole];
  return [
    whole,
    ...accounts.map((one) => {
      const { accountId, ...own } = one;
      const cell = cellOf({ ...line, ...own, account: { of: "one", id: accountId } }, findElsewhere(one, accounts));
      const isIncomplete = cell.state === "costs_missing" || cell.state === "invoice_missing";
      const isMatched = whole.state === "agrees" || whole.state === "rounding";
      const state = isIncomplete && isMatched ? "billed_together" : cell.state;
      return { ...cell, state, repeats: state === whole.state };
    }),
  ];
}

/** Which of an account's runs, costs and invoices are on other accounts' lines, so that its own line can't compare them. */
interface Elsewhere {
  runs: boolean;
  costs: boolean;
  invoices: boolean;
}

const nothingElsewhere: Elsewhere = { runs: false, costs: false, invoices: false };

type Account = ReconciledMonth["accounts"][number];

/** Records without an account cover all accounts of the provider that have none of their own. */
function findElsewhere(one: Account, accounts: readonly Account[]): Elsewhere {
  const others = accounts.filter((other) => other !== one);
  const [hasCosts, hasInvoices] = [one.importedRecords > 0, one.invoices > 0];
  if (one.accountId !== null) {
    const shared = others.find(({ accountId }) => accountId === null);
    return {
      runs: false,
      costs: !hasCosts && (shared?.importedRecords ?? 0) > 0,
      invoices: !hasInvoices && (shared?.invoices ?? 0) > 0,
    };
  }
  return {
    runs: others.some(({ runs, importedRecords }) => runs !== 0 && (!hasCosts || importedRecords === 0)),
    costs: !hasCosts && others.some(({ importedRecords, invoices }) => importedRecords > 0 && invoices === 0),
    invoices: hasInvoices
      ? hasCosts && others.some(({ importedRecords, invoices }) => importedRecords > 0 !== invoices > 0)
      : others.some(({ importedRecords, invoices }) => importedRecords === 0 && invoices > 0),
  };
}

type ComparedAmounts = Pick<
  ReconciledCell,
  | "meteredUsd"
  | "importedUsd"
  | "invoicedUsd"
  | "importedDifferenceUsd"
  | "invoicedDifferenceUsd"
  | "importedRecords"
  | "invoices"
> & {
  /** Null if unknown. */
  runs: number | null;
};
type CellAmounts = ComparedAmounts & Pick<ReconciledCell, "month" | "provider" | "account"> & { isOpen: boolean };

function cellOf({ runs, isOpen, ...amounts }: CellAmounts, elsewhere: Elsewhere): Omit<ReconciledCell, "repeats"> {
  const cell = { ...amounts, ...comparableDifferences(amounts, elsewhere) };
  return {
    ...cell,
    importedDifferencePercent: percentOrNull(cell.importedDifferenceUsd, cell.meteredUsd),
    invoicedDifferencePercent: percentOrNull(cell.invoicedDifferenceUsd, cell.importedUsd),
    state: isOpen ? "open" : stateOf({ ...cell, runs }, elsewhere),
  };
}

/** Returns a line's differences. Those that the line can't have are null. */
function comparableDifferences(amounts: Omit<ComparedAmounts, "runs">, elsewhere: Elsewhere) {
  const { importedRecords, invoices, importedDifferenceUsd, invoicedDifferenceUsd } = amounts;
  const isInvoiceCompared = importedRecords > 0 && invoices > 0 && !elsewhere.invoices;
  return {
    importedDifferenceUsd: importedRecords > 0 && !elsewhere.runs ? importedDifferenceUsd : null,
    invoicedDifferenceUsd: isInvoiceCompared ? invoicedDifferenceUsd : null,
  };
}

function percentOrNull(difference: string | null, base: string | null): string | null {
  return difference === null || base === null ? null : percentOf(difference, base);
}

function stateOf(cell: ComparedAmounts, elsewhere: Elsewhere): CellState {
  const [point] = findOpenPoints(cell, elsewhere);
  if (point) return point.kind;
  if (isNothing(cell)) return "agrees";
  const hasCosts = cell.importedRecords > 0;
  if (hasCosts ? elsewhere.invoices && !isZero(cell.importedUsd) : elsewhere.costs || elsewhere.invoices) {
    return "billed_together";
  }
  return isZero(cell.invoicedDifferenceUsd ?? "0") && isZero(cell.importedDifferenceUsd ?? "0") ? "agrees" : "rounding";
}

/** What is open about a line, with the missing or unmetered amount, or the difference. */
interface OpenPoint {
  kind: OpenPointKind;
  amountUsd: string;
}

/** Returns what is open in a provider's month that has ended, with all of its accounts, like the state of its line. */
export function listOpenPoints(
  figures: Pick<ReconciledMonth, "importedUsd" | "invoicedUsd" | "runs" | "importedRecords" | "invoices"> & {
    meteredUsd: string;
  },
): OpenPoint[] {
  const amounts = {
    ...figures,
    importedDifferenceUsd: subtractAmounts(figures.importedUsd, figures.meteredUsd),
    invoicedDifferenceUsd: subtractAmounts(figures.invoicedUsd, figures.importedUsd),
  };
  return findOpenPoints({ ...amounts, ...comparableDifferences(amounts, nothingElsewhere) }, nothingElsewhere);
}

/** Returns what is open about a line, in the order of {@link openPointKinds}. */
function findOpenPoints(cell: ComparedAmounts, elsewhere: Elsewhere): OpenPoint[] {
  if (isNothing(cell)) return [];
  const { meteredUsd, importedUsd, invoicedUsd, runs } = cell;
  const [hasCosts, hasInvoices] = [cell.importedRecords > 0, cell.invoices > 0];
  const chargedUsd = isZero(importedUsd) ? invoicedUsd : importedUsd;
  const isUnmetered = runs === 0 && !isZero(chargedUsd) && !elsewhere.runs;
  const [invoiced, metered] = [cell.invoicedDifferenceUsd ?? "0", cell.importedDifferenceUsd ?? "0"];
  const points: Record<OpenPointKind, [isOpen: boolean, amountUsd: string]> = {
    not_metered: [isUnmetered, chargedUsd],
    nothing_reported: [!hasCosts && !hasInvoices && !elsewhere.costs && !elsewhere.invoices, meteredUsd ?? "0"],
    costs_missing: [!hasCosts && hasInvoices && !elsewhere.costs, invoicedUsd],
    invoice_missing: [hasCosts && !hasInvoices && !isZero(importedUsd) && !elsewhere.invoices, importedUsd],
    invoice_differs: [!isBelowHalfCent(invoiced), invoiced],
    metering_differs: [!isUnmetered && !isBelowHalfCent(metered), metered],
  };
  return openPointKinds.flatMap((kind) => {
    const [isOpen, amountUsd] = points[kind];
    return isOpen ? [{ kind, amountUsd }] : [];
  });
}

/** Returns whether all of a line's amounts are 0. A hidden metered amount counts as 0 if there are records. */
function isNothing({ meteredUsd, importedUsd, invoicedUsd, importedRecords, invoices }: ComparedAmounts): boolean {
  if (meteredUsd === null && importedRecords === 0 && invoices === 0) return false;
  return [meteredUsd ?? "0", importedUsd, invoicedUsd].every(isZero);
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
