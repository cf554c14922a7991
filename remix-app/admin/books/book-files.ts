import type { CsvColumn } from "../../http/csv.ts";
import { subtractAmounts } from "../../studio/costs/difference.ts";
import { costColumns, invoiceColumns } from "../../studio/costs/import-files.ts";
import type { DayFigures, WorkspaceFigures } from "./platform-month.ts";

/** Columns that are left out, because the platform's records belong to no app. */
const ofApps = ["app", "app_id"];

/** CSV columns of the platform's records; amounts are exact, times are UTC. */
export const platformCostColumns = costColumns.filter(({ name }) => !ofApps.includes(name));
export const platformInvoiceColumns = invoiceColumns.filter(({ name }) => !ofApps.includes(name));

/** Leaves a file's app column empty. */
export function ofNoApp<Row extends { appId: string }>(page: { records: Row[]; nextCursor: string | null }) {
  return { ...page, records: page.records.map((record) => ({ ...record, appId: "" })) };
}

/** CSV columns of the workspaces behind a provider's month. */
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

/** CSV columns of the days in a provider's month. */
export const dayColumns: readonly CsvColumn<DayFigures>[] = [
  { name: "day", value: ({ day }) => day },
  { name: "account_id", value: ({ accountId }) => accountId },
  { name: "metered_usd", value: ({ meteredUsd }) => meteredUsd },
  { name: "imported_usd", value: ({ importedUsd }) => importedUsd },
  { name: "imported_less_metered_usd", value: (row) => subtractAmounts(row.importedUsd, row.meteredUsd) },
];
