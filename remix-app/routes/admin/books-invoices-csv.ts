import type { LoaderFunctionArgs } from "@remix-run/node";
import { platformInvoiceColumns } from "../../admin/books/book-files.ts";
import { listPlatformInvoices } from "../../admin/books/platform-invoices.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { csvFile } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { rangeFileName } from "../../studio/range.ts";

/** Downloads the platform's invoices that match the URL's filters. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const filter = readImportFilter(new URL(request.url), context);
  const pages = eachPage((cursor) => listPlatformInvoices(context, { limit: recordsPerRead, cursor, filter }));
  return csvFile(platformInvoiceColumns, { name: rangeFileName("platform-invoices", null), pages });
}
