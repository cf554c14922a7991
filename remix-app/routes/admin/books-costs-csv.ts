import type { LoaderFunctionArgs } from "@remix-run/node";
import { platformCostColumns } from "../../admin/books/book-files.ts";
import { listPlatformCosts } from "../../admin/books/platform-costs.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { csvFile } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { readFileMonth } from "../../studio/costs/month.ts";

/** Downloads the platform's cost records of a month. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const { month: _, ...filter } = readImportFilter(new URL(request.url), context);
  const { month } = readFileMonth(request, context);
  const pages = eachPage((cursor) => listPlatformCosts(context, { month, filter, limit: recordsPerRead, cursor }));
  return csvFile(platformCostColumns, { name: `platform-costs-${month}`, pages });
}
