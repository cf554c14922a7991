import { add, type Decimal, formatDecimal, parseDecimal, roundHalfEven } from "./decimal.ts";
import { type PricedUsage, priceUsage, sumOfLines, type Tariff, type TokenCounts, usdToCredits } from "./money.ts";

/** A route of a run, with its prices at the time the run began. */
export type PricedRoute = Tariff & { position: number; trusts_stated_cost?: boolean };

/** The details of a provider call that determine its price. */
export type ChargedCall = { route: number; usage: TokenCounts; servedTier?: string; statedCostUsd?: string };

/**
 * The price of a call. `stated` means that the provider stated the amount and the route trusts it. Otherwise, the
 * amount is computed from the route's tariff.
 */
export type CallPrice = { route: PricedRoute; amount: Decimal } & (PricedUsage | { stated: true });

/** The cost of a run in USD and in credits, before any exemption. Both are exact decimals as text. */
export type RunCost = { cost_usd: string; credits: string };

/** Number of decimals with which the database stores USD amounts. */
const usdDecimals = 12;
const zero: Decimal = { units: 0n, scale: 0 };

/** Returns the total cost of provider calls, rounded as in the database. Settlement charges this amount. */
export function computeRunCost(
  { routes, credits_per_usd }: { routes: readonly PricedRoute[]; credits_per_usd: string },
  calls: readonly ChargedCall[],
): RunCost {
  const cost = roundToStoredUsd(calls.map((call) => priceCall(routes, call).amount).reduce(add, zero));
  return { cost_usd: formatDecimal(cost), credits: formatDecimal(usdToCredits(cost, credits_per_usd)) };
}

/** Returns a USD amount as stored in the database: with 12 decimals, rounded half to even. */
export function roundToStoredUsd(amount: Decimal): Decimal {
  return roundHalfEven(amount, usdDecimals);
}

/** Returns the exact price of a call. @throws RangeError for a run without a route */
export function priceCall(routes: readonly PricedRoute[], call: ChargedCall): CallPrice {
  const route = routeOf(routes, call);
  if (hasStatedCost(route, call)) return { route, stated: true, amount: parseDecimal(call.statedCostUsd) };
  const priced = priceUsage(route, call.usage, call.servedTier);
  return { route, ...priced, amount: sumOfLines(priced.lines) };
}

/** Returns whether a call costs the amount that its provider stated. */
export function hasStatedCost(
  { trusts_stated_cost }: PricedRoute,
  call: Pick<ChargedCall, "statedCostUsd">,
): call is { statedCostUsd: string } {
  return trusts_stated_cost === true && call.statedCostUsd !== undefined;
}

/**
 * Returns the route of a call, or the first route if no route has the call's position.
 * @throws RangeError if the list of routes is empty
 */
export function routeOf<Route extends PricedRoute>(routes: readonly Route[], { route }: { route: number }): Route {
  const [first] = routes;
  if (!first) throw new RangeError("a run without a route");
  return routes.find(({ position }) => position === route) ?? first;
}
