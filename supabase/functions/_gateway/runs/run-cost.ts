import { add, type Decimal, formatDecimal, parseDecimal, smaller } from "../../_shared/decimal.ts";
import { type TokenCounts, usageCostUsd, usdToCredits } from "../../_shared/money.ts";
import type { Run } from "../database.ts";

/** What one provider call used, and how that is known: its final usage, a count on the way, or a guess. */
export type CallUse = { route: number; usage: TokenCounts; basis: "final" | "partial" | "guess" };

/** The cost of a run: USD, and credits before an exemption. Exact decimals as text. */
export type RunCost = { cost_usd: string; credits: string };

const nothing: Decimal = { units: 0n, scale: 0 };

/** Returns what provider calls cost at the run's prices. A guess is charged within what is left of the reservation. */
export function runCost(
  run: Pick<Run, "routes" | "reserved_usd" | "credits_per_usd">,
  calls: readonly CallUse[],
): RunCost {
  const sum = (isGuess: boolean) =>
    calls
      .filter(({ basis }) => (basis === "guess") === isGuess)
      .map(({ route, usage }) => usageCostUsd(pricesOf(run, route), usage))
      .reduce(add, nothing);
  const known = sum(false);
  const left = add(parseDecimal(run.reserved_usd), { units: -known.units, scale: known.scale });
  const cost = add(known, smaller(sum(true), left.units < 0n ? nothing : left));
  return { cost_usd: formatDecimal(cost), credits: formatDecimal(usdToCredits(cost, run.credits_per_usd)) };
}

function pricesOf({ routes }: Pick<Run, "routes">, position: number): Run["routes"][number]["prices"] {
  return (routes.find((route) => route.position === position) ?? routes[0])?.prices ?? [];
}

/** Returns the counts of all calls together. */
export function totalCounts(calls: readonly CallUse[]): TokenCounts {
  const total: Record<string, number> = {};
  for (const { usage } of calls) {
    for (const [name, count] of Object.entries(usage)) total[name] = (total[name] ?? 0) + count;
  }
  return total;
}
