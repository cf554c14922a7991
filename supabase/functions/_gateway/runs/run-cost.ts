import { add, type Decimal, formatDecimal, parseDecimal, roundHalfEven } from "../../_shared/decimal.ts";
import { isTierPriced, type TokenCounts, usageCostUsd, usdToCredits } from "../../_shared/money.ts";
import type { Run, RunRoute } from "../database.ts";
import type { UsageFacts, UsageMark } from "../usage/usage.ts";

/** What one provider call used, and how that is known: its final usage, a count on the way, or a guess. */
export type CallUse = UsageFacts & { route: number; usage: TokenCounts; basis: "final" | "partial" | "guess" };

/** The cost of a run: USD, and credits before an exemption. Exact decimals as text. */
export type RunCost = { cost_usd: string; credits: string };

/** Of an amount of USD in the database. */
const usdDecimals = 12;
const nothing: Decimal = { units: 0n, scale: 0 };

/** Returns what provider calls cost at the run's prices, or what the provider states where the route trusts that. */
export function runCost(run: Pick<Run, "routes" | "credits_per_usd">, calls: readonly CallUse[]): RunCost {
  const exact = calls.map((call) => callCost(routeOf(run, call), call)).reduce(add, nothing);
  const cost = roundHalfEven(exact, usdDecimals);
  return { cost_usd: formatDecimal(cost), credits: formatDecimal(usdToCredits(cost, run.credits_per_usd)) };
}

function callCost(route: RunRoute, { usage, statedCostUsd, servedTier }: CallUse): Decimal {
  return route.trusts_stated_cost && statedCostUsd !== undefined
    ? parseDecimal(statedCostUsd)
    : usageCostUsd(route, usage, servedTier);
}

function routeOf({ routes }: Pick<Run, "routes">, { route }: CallUse): RunRoute {
  const [first] = routes;
  if (!first) throw new RangeError("a run without a route");
  return routes.find(({ position }) => position === route) ?? first;
}

/** Returns the counts of all calls together. */
export function totalCounts(calls: readonly CallUse[]): TokenCounts {
  const total: Record<string, number> = {};
  for (const { usage } of calls) {
    for (const [name, count] of Object.entries(usage)) total[name] = (total[name] ?? 0) + count;
  }
  return total;
}

/** Returns the service tier of a run's last call that states one, and the marks that an operator should look at. */
export function factsOf(
  run: Pick<Run, "routes">,
  calls: readonly CallUse[],
): { served_tier?: string; marks?: UsageMark[] } {
  const marks = new Set(calls.flatMap((call) => call.marks ?? []));
  for (const call of calls) {
    const route = routeOf(run, call);
    const isStated = route.trusts_stated_cost && call.statedCostUsd !== undefined;
    if (call.servedTier && !isStated && !isTierPriced(route, call.servedTier)) marks.add("unpriced_tier");
  }
  const servedTier = calls.findLast(({ servedTier }) => servedTier !== undefined)?.servedTier;
  return {
    ...(servedTier === undefined ? {} : { served_tier: servedTier }),
    ...(marks.size > 0 ? { marks: [...marks] } : {}),
  };
}
