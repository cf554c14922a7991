import type { CsvColumn } from "../http/csv.ts";
import { subtractAmounts } from "../studio/costs/difference.ts";
import type { DayFigures, WorkspaceFigures } from "./platform-month.ts";

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
