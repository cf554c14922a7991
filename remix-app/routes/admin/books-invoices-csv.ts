import type { LoaderFunctionArgs } from "@remix-run/node";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { invoiceFile } from "../../studio/costs/book-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { rangeFileName } from "../../studio/range.ts";

/** Downloads the platform's invoices that match the URL's filters. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const filter = readImportFilter(new URL(request.url), context);
  return invoiceFile(context, { reader, name: rangeFileName("platform-invoices", null), filter });
}
