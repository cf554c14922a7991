import type { LoaderFunctionArgs } from "@remix-run/node";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { costFile } from "../../studio/costs/book-files.ts";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { monthWindow, readFileMonth } from "../../studio/costs/month.ts";

/** Downloads the platform's cost records of a month. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const filter = readImportFilter(new URL(request.url), context);
  const { month } = readFileMonth(request, context);
  return costFile(context, { reader, name: `platform-costs-${month}`, range: monthWindow(month), filter });
}
