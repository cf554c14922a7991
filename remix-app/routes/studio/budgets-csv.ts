import type { LoaderFunctionArgs } from "@remix-run/node";
import { createCsvResponse } from "../../http/csv.ts";
import { eachPage } from "../../http/list-page.ts";
import { budgetColumns, readBudgets } from "../../studio/budgets/budgets.ts";
import { rangeFileName } from "../../studio/range.ts";
import { requirePermission } from "../../workspaces/permission.ts";

const budgetsPerRead = 500;

/** Downloads the workspace's budgets that the member may see. */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const pages = eachPage(async (cursor) => {
    const page = { limit: budgetsPerRead, cursor, allPeriods: true };
    const { budgets: records, nextCursor } = await readBudgets(context, { ...member, ...page });
    return { records, nextCursor };
  });
  return createCsvResponse(budgetColumns, { name: rangeFileName("budgets", null), pages });
}
