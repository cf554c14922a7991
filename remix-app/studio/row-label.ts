import type { OverviewDimension, OverviewRow } from "./overview.ts";

/** What a row of the overview is called. */
export function rowLabel(row: OverviewRow, by: OverviewDimension): string {
  if (by === "key") return row.keyName ?? "No key";
  if (by === "app") return row.appName ?? "No app";
  return row[by] ?? "";
}
