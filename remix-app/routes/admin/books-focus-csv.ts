import type { LoaderFunctionArgs } from "@remix-run/node";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { focusFile } from "../../studio/costs/focus-export.ts";
import { readFileMonth } from "../../studio/costs/month.ts";

/** Downloads one month of the platform's costs and invoice shares as a FOCUS file. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const { month } = readFileMonth(request, context);
  return focusFile(context, { reader, month });
}
