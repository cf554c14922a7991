import type { LoaderFunctionArgs } from "@remix-run/node";
import { requireBook } from "../../books/require-book.ts";
import { reconciliationFile } from "../../studio/costs/book-files.ts";
import { readLineFilter } from "../../studio/costs/line-filter.ts";
import { readFileMonth } from "../../studio/costs/month.ts";

/** Downloads the lines of a month's reconciliation, with the page's filter. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const { month } = readFileMonth(request, context);
  const filter = readLineFilter(new URL(request.url));
  const name = `${book.isPlatform ? "platform" : "reconciliation"}-${month}${filter === "action" ? "-needs-action" : ""}`;
  return reconciliationFile(context, { reader: member, name, month, filter });
}
