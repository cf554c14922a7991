import type { LoaderFunctionArgs } from "@remix-run/node";
import { csvFile } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { cellColumns } from "../../studio/costs/import-files.ts";
import { monthWindow, readFileMonth } from "../../studio/costs/month.ts";
import { reconcileCosts } from "../../studio/costs/provider-imports.ts";
import { cellsOf } from "../../studio/costs/reconciliation.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all lines of a month's reconciliation. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { month } = readFileMonth(request, context);
  const today = new Date().toISOString().slice(0, 10);
  const pages = eachPage(async (cursor) => {
    const query = { ...monthWindow(month), limit: recordsPerRead, cursor };
    const { records, nextCursor } = await reconcileCosts(context, { reader: member, query });
    return { records: records.flatMap((record) => cellsOf(record, { today })), nextCursor };
  });
  return csvFile(cellColumns, { name: `reconciliation-${month}`, pages });
}
