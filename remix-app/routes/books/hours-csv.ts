import type { LoaderFunctionArgs } from "@remix-run/node";
import { readBookDay } from "../../books/matching/book-day.ts";
import { hourColumns } from "../../books/matching/hour-columns.ts";
import { compareHours } from "../../books/matching/hours.ts";
import { requirePlatformBook } from "../../books/require-book.ts";
import { createCsvResponse } from "../../http/csv.ts";
import { problem } from "../../http/problem.ts";

/** Downloads the comparison of a provider's hours with the calls, with a row for each hour and model. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const { provider, day, matching } = readBookDay(params, context);
  if (matching !== "hours") {
    throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This provider states no hours." });
  }
  const { lines } = await compareHours(context, { member, provider, day, line: null });
  return createCsvResponse(hourColumns, { name: `hours-${provider}-${day}`, pages: [lines] });
}
