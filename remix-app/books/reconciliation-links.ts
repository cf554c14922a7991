import { writeImportFilter } from "../studio/costs/import-filter.ts";
import { daysOfMonth } from "../studio/costs/month.ts";
import type { CellState, ReconciledCell } from "../studio/costs/reconciliation.ts";
import type { CellLink } from "../studio/costs/reconciliation-table.tsx";
import { type Book, causesPath, costsPath } from "./book.ts";

const wantsCosts: readonly CellState[] = ["nothing_reported", "costs_missing", "invoice_differs"];
const wantsInvoice: readonly CellState[] = ["nothing_reported", "invoice_missing", "invoice_differs"];

/**
 * Returns the links from a reconciliation line to its records and to the action that its status requires.
 * @param options.only the id of the line's single account, or null if the line has several or none
 */
export function recordLinks(cell: ReconciledCell, { book, only }: { book: Book; only: string | null }): CellLink[] {
  const { month, provider, account, state, importedRecords, invoices } = cell;
  const isUnmetered = state === "not_metered";
  const lacks = { costs: isUnmetered && importedRecords === 0, invoice: isUnmetered && invoices === 0 };
  const { first, last } = daysOfMonth(month);
  const filter = writeImportFilter({ provider, ...(account.of === "one" ? { accountId: account.id } : {}) });
  const accountId = account.of === "one" ? account.id : only;
  const entry = { provider, ...(accountId ? { accountId } : {}), periodStart: first, periodEnd: last };
  return [
    ...(isUnmetered && book.isPlatform ? [{ label: "Likely causes", to: causesPath(cell) }] : []),
    ...(importedRecords > 0 ? [{ label: "Costs", to: costsPath(book, { first, last, ...filter }) }] : []),
    ...(invoices > 0
      ? [{ label: "Invoices", to: `${book.invoices}?${new URLSearchParams({ month, ...filter })}` }]
      : []),
    ...((wantsCosts.includes(state) || lacks.costs) && !cell.repeats
      ? [{ label: "Import costs", to: book.costImport }]
      : []),
    ...(wantsInvoice.includes(state) || (lacks.invoice && account.of === "all")
      ? [{ label: "Enter invoice", to: `${book.invoices}/new?${new URLSearchParams(entry)}` }]
      : []),
  ];
}
