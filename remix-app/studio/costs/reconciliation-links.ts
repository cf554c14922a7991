import { writeImportFilter } from "./import-filter.ts";
import { daysOfMonth } from "./month.ts";
import type { CellState, ReconciledCell } from "./reconciliation.ts";
import type { CellLink } from "./reconciliation-table.tsx";

const wantsCosts: readonly CellState[] = ["nothing_reported", "costs_missing", "invoice_differs"];
const wantsInvoice: readonly CellState[] = ["nothing_reported", "invoice_missing", "invoice_differs"];

/**
 * Returns the links of a reconciliation line in a workspace. They lead to the line's records and to the action that its
 * status requires.
 * @param options.base the path of the studio's pages
 * @param options.only the account of a line that has a single account, otherwise null
 */
export function studioLinks(cell: ReconciledCell, { base, only }: { base: string; only: string | null }): CellLink[] {
  const { first, last } = daysOfMonth(cell.month);
  return recordLinks(cell, { base, only, importTo: `${base}/costs/import`, ofCosts: { from: first, to: last } });
}

/**
 * Returns the links from a reconciliation line to its records, for a workspace or for the platform.
 * @param options.base the path that contains the pages of records
 * @param options.ofCosts the query parameters that select the month on the costs page
 */
export function recordLinks(
  cell: ReconciledCell,
  options: { base: string; only: string | null; importTo: string; ofCosts: Record<string, string> },
): CellLink[] {
  const { base, only, importTo, ofCosts } = options;
  const { month, provider, account, state } = cell;
  const { first, last } = daysOfMonth(month);
  const filter = writeImportFilter({ provider, ...(account.of === "one" ? { accountId: account.id } : {}) });
  const accountId = (account.of === "one" ? account.id : only) ?? "";
  const link = (label: string, path: string, search: Record<string, string>) => ({
    label,
    to: `${base}${path}?${new URLSearchParams(Object.entries(search).filter(([, value]) => value !== ""))}`,
  });
  return [
    ...(cell.importedRecords > 0 ? [link("Costs", "/costs", { ...ofCosts, ...filter })] : []),
    ...(cell.invoices > 0 ? [link("Invoices", "/invoices", { month, ...filter })] : []),
    ...(wantsCosts.includes(state) && !cell.repeats ? [{ label: "Import costs", to: importTo }] : []),
    ...(wantsInvoice.includes(state)
      ? [link("Enter invoice", "/invoices/new", { provider, accountId, periodStart: first, periodEnd: last })]
      : []),
  ];
}
