import type { LoaderFunctionArgs } from "@remix-run/node";
import { costFileName, readCostPeriod } from "../../books/cost-period.ts";
import { requireBook } from "../../books/require-book.ts";
import { costFile } from "../../studio/costs/book-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { requireValidRange } from "../../studio/range.ts";

/** Downloads all records that match the costs page's period and filters. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const url = new URL(request.url);
  const period = requireValidRange(readCostPeriod(book, url), context);
  const filter = readImportFilter(url, context);
  return costFile(context, { reader: member, name: costFileName(period), range: period, filter });
}
