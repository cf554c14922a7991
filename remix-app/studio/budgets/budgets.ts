import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { CsvColumn } from "../../http/csv.ts";
import { buildPage, pageQuery, parseCursor, readKeyCursor, writeKeyCursor } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import type { WorkspacePermission } from "../../workspaces/permission.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { type Budget, type BudgetScope, budgetScope, budgetsAnswer } from "./budget-schema.ts";

export const budgetPermissions: Record<BudgetScope, WorkspacePermission> = {
  workspace: "manage_ai_policy",
  app: "manage_ai_policy",
  key: "manage_ai_keys",
  member: "manage_ai_policy",
  label: "manage_ai_policy",
};

/** The query of the list in the API. */
export const budgetQuery = pageQuery.extend({
  period: z
    .enum(["month", "all"])
    .default("month")
    .describe("month lists only monthly budgets, and subjects without one. all lists every budget."),
});

/** Parses the query of the list. @throws Response 400 INVALID_REQUEST */
export function readBudgetQuery(request: Request, { requestId }: { requestId: string }): z.infer<typeof budgetQuery> {
  const query = budgetQuery.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (query.success) return query.data;
  throw problem("INVALID_REQUEST", {
    requestId,
    detail: "limit must be a number from 1 to 100, cursor the nextCursor of an earlier page, and period month or all.",
  });
}

const readPosition = (cursor: string) => readKeyCursor(cursor, { length: 4 }) ?? readKeyCursor(cursor, { length: 3 });

/**
 * Returns a page of a workspace's budgets with their usage in the current windows. The order is stable: budgets are
 * sorted by scope, then labels by their text and other subjects by when they were created, then by period. Budgets of
 * keys require manage_ai_keys or manage_ai_policy.
 * @param options.includeKeys whether a member who may see budgets of keys gets them
 * @param options.allPeriods whether to return every budget of a subject, instead of only its monthly budget
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function readBudgets(
  context: AppLoadContext,
  {
    limit,
    cursor,
    allPeriods,
    includeKeys = true,
    ...member
  }: StudioMember & {
    limit: number;
    cursor?: string | undefined;
    allPeriods: boolean;
    includeKeys?: boolean;
  },
) {
  const after = parseCursor(cursor, { read: readPosition, requestId: context.requestId });
  const args = {
    after,
    page_size: limit + 1,
    scopes: budgetScope.options,
    all_periods: allPeriods,
    include_keys: includeKeys,
  };
  const answer = await callAsMember(context, { member, name: "read_budgets", args, schema: budgetsAnswer });
  return budgetPageOf(context, { answer, limit });
}

/** Returns the page of budgets in an answer. @throws Response 403 FORBIDDEN */
export function budgetPageOf(
  { requestId }: AppLoadContext,
  { answer, limit }: { answer: z.output<typeof budgetsAnswer>; limit: number },
) {
  if (answer.outcome === "not_allowed") throw problem("FORBIDDEN", { requestId, detail: notAllowedDetail });
  const { outcome: _, budgets: found, ...page } = answer;
  const { records, nextCursor } = buildPage(found, { limit, cursorOf: ({ position }) => writeKeyCursor(position) });
  const budgets: Budget[] = records.map(({ position: __, ...budget }) => budget);
  return { ...page, budgets, nextCursor };
}

export const notAllowedDetail = "Your role in this workspace doesn’t allow this.";

/** The columns of the budgets' CSV file. Amounts are exact. */
export const budgetColumns: readonly CsvColumn<Budget>[] = [
  { name: "scope", value: ({ scope }) => scope },
  { name: "name", value: ({ name }) => name },
  { name: "id", value: ({ subjectId }) => subjectId },
  { name: "live", value: ({ live }) => String(live) },
  { name: "limit_usd", value: ({ limitUsd }) => limitUsd },
  { name: "spent_usd", value: ({ spentUsd }) => spentUsd },
  { name: "reserved_usd", value: ({ reservedUsd }) => reservedUsd },
  { name: "remaining_usd", value: ({ remainingUsd }) => remainingUsd },
  { name: "spent_percent", value: ({ spentPercent }) => spentPercent },
  { name: "used_up", value: ({ usedUp }) => String(usedUp) },
  { name: "warned_percent", value: ({ warned }) => warned?.threshold },
  { name: "warned_at", value: ({ warned }) => warned?.at },
  { name: "enforced", value: ({ enforced }) => String(enforced) },
  { name: "period", value: ({ period }) => period },
  { name: "time_zone", value: ({ timeZone }) => timeZone },
  { name: "starts_at", value: ({ startsAt }) => startsAt },
  { name: "ends_at", value: ({ endsAt }) => endsAt },
  { name: "warn_at_percent", value: ({ thresholds }) => thresholds.join(" ") },
  { name: "reserves_expected", value: ({ reservesExpected }) => String(reservesExpected) },
  { name: "max_calls", value: ({ maxCalls }) => maxCalls },
  { name: "calls", value: ({ calls }) => calls },
];
