import type { LoaderFunctionArgs } from "@remix-run/node";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import { focusFile } from "../../studio/costs/focus-export.ts";
import { monthWindow, readFileMonth } from "../../studio/costs/month.ts";
import { listCostRecords, listInvoiceShares } from "../../studio/costs/provider-imports.ts";
import type { MemberReader } from "../../studio/studio-reader.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads a month's imported costs, and the shares of invoices that belong to the month, as a FOCUS file. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const reader: MemberReader = member;
  const { month } = readFileMonth(request, context);
  const limit = recordsPerRead;
  return focusFile({
    month,
    costs: eachPage((cursor) =>
      listCostRecords(context, { reader, query: { ...monthWindow(month), limit, cursor }, filter: {} }),
    ),
    invoices: eachPage((cursor) => listInvoiceShares(context, { reader, month, limit, cursor })),
  });
}
