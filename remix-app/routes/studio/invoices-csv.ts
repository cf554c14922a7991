import type { LoaderFunctionArgs } from "@remix-run/node";
import { csvFile } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { invoiceColumns } from "../../studio/costs/import-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { listProviderInvoices } from "../../studio/costs/provider-imports.ts";
import { rangeFileName } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all invoices that match the invoices page's filters. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const filter = readImportFilter(new URL(request.url), context);
  const pages = eachPage((cursor) =>
    listProviderInvoices(context, { reader: member, query: { limit: recordsPerRead, cursor }, filter }),
  );
  return csvFile(invoiceColumns, { name: rangeFileName("invoices", null), pages });
}
