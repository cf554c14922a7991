import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { rangeFileName, readFileRange } from "../../studio/range.ts";
import { ledgerColumns } from "../../studio/usage/ledger.tsx";
import { ledgerFilePages } from "../../studio/usage/ledger-file.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads all ledger entries of a date range, with the balances before and after it. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { from, to } = readFileRange(request, context);
  const pages = ledgerFilePages(context, { reader: member, range: { from, to } });
  return createCsvResponse(ledgerColumns, { name: rangeFileName("credits", { from, to }), pages });
}
