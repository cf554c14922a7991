import type { CsvColumn } from "../../http/csv.ts";
import { subtractAmounts } from "../../studio/costs/difference.ts";
import { costColumns, invoiceColumns } from "../../studio/costs/import-files.ts";
import type { DayFigures, WorkspaceFigures } from "./platform-month.ts";

/** Columns that are left out of the platform's files, because its records belong to no app. */
const ofApps = ["app", "app_id"];

/** CSV columns of the platform's records. Amounts are exact, and times are UTC. */
export const platformCostColumns = costColumns.filter(({ name }) => !ofApps.includes(name));
export const platformInvoiceColumns = invoiceColumns.filter(({ name }) => !ofApps.includes(name));

/** Empties the app column of a page of records. */
export function ofNoApp<Row extends { appId: string }>(page: { records: Row[]; nextCursor: string | null }) {
  return { ...page, records: page.records.map((record) => ({ ...record, appId: "" })) };
}

/** CSV columns of a provider's costs in one month, by workspace. */
export const workspaceColumns: readonly CsvColumn<WorkspaceFigures>[] = [
  { name: "workspace_id", value: ({ workspaceId }) => workspaceId },
  { name: "workspace", value: ({ name }) => name },
  { name: "account_id", value: ({ accountId }) => accountId },
  { name: "metered_usd", value: ({ meteredUsd }) => meteredUsd },
  { name: "runs", value: ({ runs }) => runs },
  { name: "estimated_runs", value: ({ estimatedRuns }) => estimatedRuns },
  { name: "closed_runs", value: ({ closedRuns }) => closedRuns },
  { name: "own_imported_usd", value: ({ importedUsd }) => importedUsd },
  { name: "own_invoiced_usd", value: ({ invoicedUsd }) => invoicedUsd },
  { name: "own_imported_less_metered_usd", value: ({ differenceUsd }) => differenceUsd },
];

/** CSV columns of a provider's costs in one month, by day. */
export const dayColumns: readonly CsvColumn<DayFigures>[] = [
  { name: "day", value: ({ day }) => day },
  { name: "account_id", value: ({ accountId }) => accountId },
  { name: "metered_usd", value: ({ meteredUsd }) => meteredUsd },
  { name: "imported_usd", value: ({ importedUsd }) => importedUsd },
  { name: "imported_less_metered_usd", value: (row) => subtractAmounts(row.importedUsd, row.meteredUsd) },
];
