import { type ChargedCall, isStated, routeOf } from "../../_shared/call-price.ts";
import { isTierPriced, type TokenCounts } from "../../_shared/money.ts";
import type { Run } from "../database.ts";
import type { Asked } from "../surface.ts";
import type { UsageFacts, UsageMark } from "../usage/usage.ts";

/** What one provider call used. `basis` is the source: the final usage, an intermediate count, or an estimate. */
export type CallUse = ChargedCall & UsageFacts & { basis: "final" | "partial" | "guess" };

/** Returns whether a call's usage or stated cost is above zero. */
export function isCharged({ usage, statedCostUsd = "0" }: CallUse): boolean {
  return Number(statedCostUsd) > 0 || Object.values(usage).some((count) => count > 0);
}

/** Returns the sum of all calls' counts. */
export function totalCounts(calls: readonly CallUse[]): TokenCounts {
  const total: Record<string, number> = {};
  for (const { usage } of calls) {
    for (const [name, count] of Object.entries(usage)) total[name] = (total[name] ?? 0) + count;
  }
  return total;
}

/** Returns the last service tier that a run's calls reported, and the marks that tell an operator to check the run. */
export function factsOf(
  { routes }: Pick<Run, "routes">,
  calls: readonly CallUse[],
  { hasUnmeasuredInput = false }: Pick<Asked, "hasUnmeasuredInput"> = {},
): { served_tier?: string; marks?: UsageMark[] } {
  const marks = new Set(calls.flatMap((call) => call.marks ?? []));
  if (hasUnmeasuredInput && calls.some(({ basis }) => basis === "guess")) marks.add("unmeasured_document");
  for (const call of calls) {
    const route = routeOf(routes, call);
    if (call.servedTier && !isStated(route, call) && !isTierPriced(route, call.servedTier)) marks.add("unpriced_tier");
  }
  const servedTier = calls.findLast(({ servedTier }) => servedTier !== undefined)?.servedTier;
  return {
    ...(servedTier === undefined ? {} : { served_tier: servedTier }),
    ...(marks.size > 0 ? { marks: [...marks] } : {}),
  };
}
