import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { rangeFileName, readFileRange } from "../../studio/range.ts";
import { overviewColumns, readWholeOverview } from "../../studio/usage/overview.ts";
import { readDimension } from "../../studio/usage/overview-metric.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads the overview's tables: one row per day, and the complete list for every other dimension. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const by = readDimension(new URL(request.url));
  const range = readFileRange(request, context);
  const rows = await readWholeOverview(context, { reader: member, range, by });
  return createCsvResponse(overviewColumns(by), { name: rangeFileName(`usage-by-${by}`, range), pages: [rows] });
}
