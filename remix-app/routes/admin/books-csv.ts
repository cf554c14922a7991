import type { LoaderFunctionArgs } from "@remix-run/node";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { reconciliationFile } from "../../studio/costs/book-files.ts";
import { readFileMonth } from "../../studio/costs/month.ts";

/** Downloads the platform's reconciliation of a month. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const { month } = readFileMonth(request, context);
  return reconciliationFile(context, { reader, name: `platform-${month}`, month });
}
