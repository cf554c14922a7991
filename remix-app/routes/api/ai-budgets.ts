import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { readJson } from "../../http/json-body.ts";
import { problem } from "../../http/problem.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { parseBudgets } from "../../studio/budgets/budget-amount.ts";
import { budgetChange, changeBudget, valuesOf } from "../../studio/budgets/budget-change.ts";
import { readBudgetQuery, readBudgets } from "../../studio/budgets/budgets.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { requireScope, requireWorkspaceCaller } from "../../workspaces/workspace-caller.ts";

const permission = "use_ai_studio";

export const handle: RouteHandle = { methods: ["GET", "HEAD", "PATCH"] };

/**
 * `GET /api/v1/workspaces/{wsId}/ai/budgets`: returns a page of budgets. Subjects without a budget are listed with a
 * null limit. Only `period=all` lists budgets of other periods than a month, so that older clients, which don't know
 * periods, take none of them for a monthly one.
 */
export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { member, scopes } = await requireWorkspaceCaller(context, { request, params, permission });
  // The database knows the scopes of the service account, not those to which its token is limited.
  const includeKeys = scopes === null || scopes.includes("manage_ai_keys") || scopes.includes("manage_ai_policy");
  const { period, ...page } = readBudgetQuery(request, context);
  const allPeriods = period === "all";
  return Response.json(
    convertAmountsToJsonNumbers(await readBudgets(context, { ...member, ...page, allPeriods, includeKeys })),
  );
}

/** `PATCH` on the same URL: sets or removes one budget, unless it has changed since the member read it. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  const caller = await requireWorkspaceCaller(context, { request, params, permission });
  const { requestId } = context;
  const body = await readJson(request, { schema: budgetChange, requestId, parse: parseBudgets });
  requireScope(context, { caller, permission: body.scope === "key" ? "manage_ai_keys" : "manage_ai_policy" });
  const answer = await changeBudget(context, { member: caller.member, of: body, values: valuesOf(body) });
  if (answer.outcome === "changed_meanwhile") {
    const detail = "The budget has changed since you read it. Read it and set it again.";
    throw problem("CONFLICT", { requestId, detail });
  }
  if (answer.outcome === "invalid") {
    const { param, message: detail } = answer;
    throw problem("INVALID_REQUEST", { requestId, detail, members: { param } });
  }
  return new Response(null, { status: 204 });
}
