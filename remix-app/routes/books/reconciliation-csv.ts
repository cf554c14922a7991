import type { LoaderFunctionArgs } from "@remix-run/node";
import { requireBook } from "../../books/require-book.ts";
import { reconciliationFile } from "../../studio/costs/book-files.ts";
import { readFileMonth } from "../../studio/costs/month.ts";

/** Downloads all lines of a month's reconciliation. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const { month } = readFileMonth(request, context);
  const name = `${book.isPlatform ? "platform" : "reconciliation"}-${month}`;
  return reconciliationFile(context, { reader: member, name, month });
}
