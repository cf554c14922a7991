import type { LoaderFunctionArgs } from "@remix-run/node";
import { requireBook } from "../../books/require-book.ts";
import { focusFile } from "../../studio/costs/focus-export.ts";
import { readFileMonth } from "../../studio/costs/month.ts";

/** Downloads a month's imported costs, and the shares of invoices that belong to the month, as a FOCUS file. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requireBook(context, { request, params });
  const { month } = readFileMonth(request, context);
  return focusFile(context, { reader: member, month });
}
