import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { listSpending, type SpendingOwner, sortSchema, spendingSchema } from "../admin/spending.ts";
import { pageQuery } from "../http/list-page.ts";
import { monthPattern } from "../studio/costs/month.ts";

const spendingQuery = pageQuery.extend({
  month: z.string().regex(monthPattern).optional().describe("YYYY-MM, in UTC. By default the current month."),
  sort: sortSchema.default("cost"),
});

/** What the lists of spenders share. */
export const spendingParts = {
  description:
    "Those with runs in the UTC month, highest value first; sorted by balance, also those with a balance and no runs.",
  query: spendingQuery,
  answer: z.object({
    spenders: spendingSchema.shape.rows,
    totals: spendingSchema.shape.totals,
    nextCursor: z.string().nullable(),
  }),
};

/** Returns a page of the workspaces or accounts that spend in a month. */
export function readSpending(
  context: AppLoadContext,
  { month, sort, limit, cursor, by }: z.output<typeof spendingQuery> & { by: SpendingOwner },
) {
  const chosen = month ?? new Date().toISOString().slice(0, 7);
  const choice = { month: chosen, current: chosen, fault: null };
  return listSpending(context, { query: { choice, by, sort }, cursor, limit });
}
