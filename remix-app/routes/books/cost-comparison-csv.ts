import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { compareCosts } from "../../studio/costs/cost-comparison.ts";
import { comparisonColumns } from "../../studio/costs/import-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { rangeFileName, readFileRange } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads the costs page's comparison with the page's filters, for all providers. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const range = readFileRange(request, context);
  const { provider } = readImportFilter(new URL(request.url), context);
  const pages = eachPage(async (cursor) => {
    const query = { from: range.from, to: range.to, limit: recordsPerRead, cursor };
    const { providers: records, nextCursor } = await compareCosts(context, { reader: member, query, provider });
    return { records, nextCursor };
  });
  return createCsvResponse(comparisonColumns, { name: rangeFileName("costs-by-provider", range), pages });
}
