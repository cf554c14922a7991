import type { LoaderFunctionArgs } from "@remix-run/node";
import { requireBook } from "../../books/require-book.ts";
import { invoiceFile } from "../../studio/costs/book-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { rangeFileName } from "../../studio/range.ts";

/** Downloads all invoices that match the invoices page's filters. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const filter = readImportFilter(new URL(request.url), context);
  const name = rangeFileName(book.isPlatform ? "platform-invoices" : "invoices", null);
  return invoiceFile(context, { reader: member, name, filter });
}
