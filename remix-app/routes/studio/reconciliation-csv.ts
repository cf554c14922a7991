import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { csvFile } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { cellColumns } from "../../studio/costs/import-files.ts";
import { reconcileCosts } from "../../studio/costs/provider-imports.ts";
import { cellsOf, readReconciledRange } from "../../studio/costs/reconciliation.ts";
import { rangeFileName, rangeOfFile } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** The reconciliation page's lines of the same address, all of them, as a file. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { range, months, today } = readReconciledRange(new URL(request.url), { now: new Date() });
  rangeOfFile(range, context);
  const pages = eachPage(async (cursor) => {
    const query = { ...months, limit: recordsPerRead, cursor };
    const { records, nextCursor } = await reconcileCosts(context, { reader: member, query });
    return { records: records.flatMap((record) => cellsOf(record, { today })), nextCursor };
  });
  return csvFile(cellColumns, { name: rangeFileName("reconciliation", months), pages });
}
