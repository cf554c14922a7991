import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { eachPage } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { rangeFileName, requireValidRange } from "../../studio/range.ts";
import { readRunQuery, runColumns } from "../../studio/runs/run-query.ts";
import { listRunsOfFile } from "../../studio/runs/runs.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Formatting more runs at a time would delay other requests of the server. */
const runsPerRead = 2_000;

/** Downloads all runs that match the page's filters, in its order. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { requestId } = context;
  const { filter, sort, range } = readRunQuery(new URL(request.url), { requestId, now: new Date() });
  requireValidRange(range, context);
  if (filter.status === "refused")
    throw problem("INVALID_REQUEST", { requestId, detail: "status: This file has runs." });
  const page = { ...member, filter, sort, limit: runsPerRead };
  const pages = eachPage(async (cursor) => {
    const { runs: records, nextCursor } = await listRunsOfFile(context, { ...page, cursor });
    return { records, nextCursor };
  });
  return createCsvResponse(runColumns, { name: rangeFileName("runs", range), pages });
}
