import type { LoaderFunctionArgs } from "@remix-run/node";
import { costFile } from "../../studio/costs/book-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { rangeFileName, readFileRange } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all records that match the costs page's filters. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const range = readFileRange(request, context);
  const filter = readImportFilter(new URL(request.url), context);
  return costFile(context, { reader: member, name: rangeFileName("costs", range), range, filter });
}
