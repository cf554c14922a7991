import type { LoaderFunctionArgs } from "@remix-run/node";
import { invoiceFile } from "../../studio/costs/book-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { rangeFileName } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all invoices that match the invoices page's filters. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const filter = readImportFilter(new URL(request.url), context);
  return invoiceFile(context, { reader: member, name: rangeFileName("invoices", null), filter });
}
