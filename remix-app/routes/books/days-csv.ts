import type { LoaderFunctionArgs } from "@remix-run/node";
import { explainPlatformMonth, readBookMonth } from "../../books/platform-month.ts";
import { dayColumns } from "../../books/provider-files.ts";
import { requirePlatformBook } from "../../books/require-book.ts";
import { createCsvResponse } from "../../http/csv.ts";

/** Downloads one provider's figures of a month, with a row per day. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const reader = await requirePlatformBook(context, request);
  const { month, provider } = readBookMonth(params, context);
  const { days } = await explainPlatformMonth(context, { reader, month, provider });
  return createCsvResponse(dayColumns, { name: `days-${provider}-${month}`, pages: [days] });
}
