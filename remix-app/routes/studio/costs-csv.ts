import type { LoaderFunctionArgs } from "@remix-run/node";
import { csvFile } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { costColumns } from "../../studio/costs/import-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { listCostRecords } from "../../studio/costs/provider-imports.ts";
import { rangeFileName, readFileRange } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all records that match the costs page's filters. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const range = readFileRange(request, context);
  const filter = readImportFilter(new URL(request.url), context);
  const pages = eachPage((cursor) => {
    const query = { from: range.from, to: range.to, limit: recordsPerRead, cursor };
    return listCostRecords(context, { reader: member, query, filter });
  });
  return csvFile(costColumns, { name: rangeFileName("costs", range), pages });
}
