import { hasStatedCost, routeOf } from "../../_shared/call-price.ts";
import { isTierPriced, type TokenCounts } from "../../_shared/money.ts";
import type { Run } from "../database/database.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import type { CallUse, UsageMark } from "../usage/usage.ts";

/** Returns the sum of all calls' counts. */
export function totalCounts(calls: readonly CallUse[]): TokenCounts {
  const total: Record<string, number> = {};
  for (const { usage } of calls) {
    for (const [name, count] of Object.entries(usage)) total[name] = (total[name] ?? 0) + count;
  }
  return total;
}

/** Returns the last service tier that a run's calls reported, and the marks that tell an operator to check the run. */
export function readRunFacts(
  { routes }: Pick<Run, "routes">,
  calls: readonly CallUse[],
  { hasUnmeasuredInput = false }: Pick<ParsedRequest, "hasUnmeasuredInput"> = {},
): { served_tier?: string; marks?: UsageMark[] } {
  const marks = new Set(calls.flatMap((call) => call.marks ?? []));
  if (hasUnmeasuredInput && calls.some(({ basis }) => basis === "guess")) marks.add("unmeasured_document");
  for (const call of calls) {
    const route = routeOf(routes, call);
    if (call.servedTier && !hasStatedCost(route, call) && !isTierPriced(route, call.servedTier))
      marks.add("unpriced_tier");
  }
  const servedTier = calls.findLast(({ servedTier }) => servedTier !== undefined)?.servedTier;
  return {
    ...(servedTier === undefined ? {} : { served_tier: servedTier }),
    ...(marks.size > 0 ? { marks: [...marks] } : {}),
  };
}
