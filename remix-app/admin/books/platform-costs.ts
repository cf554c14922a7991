import type { AppLoadContext } from "@remix-run/node";
import { pageOf, positionOf, readCursor } from "../../http/list-page.ts";
import { listedCosts } from "../../studio/costs/provider-import-schema.ts";
import { cursorOfCost, type ImportFilter } from "../../studio/costs/provider-imports.ts";
import { callFunction } from "../../supabase/data-api.ts";

const page = listedCosts.pick({ totals: true, records: true });

/**
 * Returns a page of the costs in the platform's books for a month, the newest first, with totals of all matching costs.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listPlatformCosts(
  context: AppLoadContext,
  {
    month,
    filter,
    limit,
    cursor,
  }: { month: string; filter: ImportFilter; limit: number; cursor: string | null | undefined },
) {
  const args = {
    month: `${month}-01`,
    filter,
    before: positionOf(cursor, { read: readCursor, requestId: context.requestId }),
    page_size: limit + 1,
  };
  const { totals, records } = await callFunction(context, {
    name: "private.list_platform_costs",
    args,
    schema: page,
  });
  return { totals, ...pageOf(records, { limit, cursorOf: cursorOfCost }) };
}
