import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { readFileMonth } from "../../studio/costs/month.ts";
import { creditStatementFileName, readCreditStatement } from "../../studio/credits/statement.ts";
import { creditStatementColumns, creditStatementRows } from "../../studio/credits/statement-rows.ts";
import { requirePermission } from "../../workspaces/permission.ts";

/** Downloads a workspace's statement of a month with exact credits. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const { month } = readFileMonth(request, context);
  const statement = await readCreditStatement(context, { reader: member, month });
  const pages = [creditStatementRows(statement)];
  return createCsvResponse(creditStatementColumns, { name: creditStatementFileName(statement), pages });
}
