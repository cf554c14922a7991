import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { readPageQuery } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { parseBudgets } from "../../studio/budgets/budget-amount.ts";
import { budgetChange, changeBudget, readBudgets } from "../../studio/budgets/budgets.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requirePermission } from "../../workspaces/permission.ts";

const permission = "use_ai_studio";

export const handle: RouteHandle = { methods: ["GET", "HEAD", "PATCH"] };

/**
 * `GET /api/v1/workspaces/{wsId}/ai/budgets`: returns a page of budgets. Subjects without a budget are listed with a
 * null limit.
 */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission });
  return Response.json(
    convertAmountsToJsonNumbers(await readBudgets(context, { ...member, ...readPageQuery(request, context) })),
  );
}

/** `PATCH` on the same URL: sets or removes one budget, unless it has changed since the member read it. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const { member } = await requirePermission(context, { request, params, permission });
  const { requestId } = context;
  const body = await readJson(request, { schema: budgetChange, requestId, parse: parseBudgets });
  const { monthlyBudgetUsd: limitUsd, previousBudgetUsd: readUsd, ...of } = body;
  const changed = await changeBudget(context, { ...member, of, limitUsd, readUsd });
  if (changed.outcome !== "changed_meanwhile") return new Response(null, { status: 204 });
  const detail = "The budget has changed since you read it. Read it and set it again.";
  throw problem("CONFLICT", { requestId, detail });
}
