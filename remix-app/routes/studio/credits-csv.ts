import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { rangeFileName, readFileRange } from "../../studio/range.ts";
import { ledgerColumns } from "../../studio/usage/ledger.tsx";
import { listLedgerEntries } from "../../studio/usage/usage.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all ledger entries of a date range. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { from, to } = readFileRange(request, context);
  const pages = eachPage((cursor) =>
    listLedgerEntries(context, { reader: member, query: { from, to, limit: recordsPerRead, cursor } }),
  );
  return createCsvResponse(ledgerColumns, { name: rangeFileName("credits", { from, to }), pages });
}
