import type { LoaderFunctionArgs } from "@remix-run/node";
import { readSpendingFile, readSpendingQuery, requireSpendingReader, spendingColumns } from "../../admin/spending.ts";
import { createCsvResponse } from "../../http/csv.ts";
import { requireValidRange } from "../../studio/range.ts";

/** Downloads the list of the page Spending, with all its rows. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const query = readSpendingQuery(new URL(request.url));
  await requireSpendingReader(context, { request, by: query.by });
  const { month } = requireValidRange(query.choice, context);
  const pages = await readSpendingFile(context, { query });
  return createCsvResponse(spendingColumns(query), { name: `spending-by-${query.by}-${month}`, pages });
}
