import {
  type CallPrice,
  type ChargedCall,
  hasStatedCost,
  priceCall,
  roundToStoredUsd,
  routeOf,
} from "#shared/call-price.ts";
import { add, type Decimal, formatDecimal, multiply, parseDecimal } from "#shared/decimal.ts";
import { findTierPrices, priceLines, sumOfLines, type TokenCounts, usageItems } from "#shared/money.ts";
import type { PricingCall, PricingFacts, PricingLine, PricingNote, RunPricing } from "./pricing-schema.ts";
import type { RunSummary } from "./run-schema.ts";

type Route = PricingFacts["routes"][number];
type Attempt = PricingFacts["attempts"][number];
type ChargedUsage = NonNullable<Attempt["charged"]>;
type PricedCall = { call: ChargedCall; price: CallPrice };
type CostExplanation = { lines: PricingLine[]; calls: PricingCall[]; amount: Decimal };

const zero: Decimal = { units: 0n, scale: 0 };

/**
 * Explains a run's cost with the function that settlement uses. The lines always add up to the recorded cost, because
 * the part that the stored counts do not explain has its own line.
 */
export function pricingOf(run: RunSummary): RunPricing {
  const { priced, costUsd, billedCredits, unmeteredCredits } = run;
  const explained = costUsd === null ? null : explainCost(run, parseDecimal(costUsd));
  return {
    lines: explained?.lines ?? createUnpricedLines(countsOf(run)),
    calls: explained?.calls ?? null,
    costUsd,
    markup: priced.markup ?? null,
    creditsPerUsd: priced.creditsPerUsd ?? null,
    billedCredits,
    unmeteredCredits,
    reservedCredits: priced.reservedCredits,
    notes: notesOf(run, explained),
  };
}

function explainCost(run: RunSummary, cost: Decimal): CostExplanation {
  const found = explainCountedPart(run, cost);
  const rest = add(cost, multiply(found.amount, { units: -1n, scale: 0 }));
  if (rest.units === 0n) return found;
  const item = roundsToCost(found.amount, cost) ? "rounding" : "not_itemised";
  return { ...found, lines: [...found.lines, amountLine(item, rest)] };
}

/** Returns the pricing lines of a run's calls, and the part of the run's cost that the stored counts explain. */
function explainCountedPart(run: RunSummary, cost: Decimal): CostExplanation {
  const { routes, route, attempts } = run.priced;
  const separate = attempts.flatMap((attempt) =>
    attempt.charged ? [chargedCall(attempt.route, attempt.charged)] : [],
  );
  const together: ChargedCall = {
    route: route ?? 0,
    usage: countsOf(run),
    ...(run.servedTier === null ? {} : { servedTier: run.servedTier }),
  };
  const tokens = { lines: createUnpricedLines(together.usage), calls: [], amount: zero };
  if (routes.length === 0) return tokens;
  if (separate.length > 0) {
    return itemise(
      routes,
      separate.filter((call) => isPriceable(routes, call)).map((call) => ({ call, price: priceCall(routes, call) })),
    );
  }
  const prices = isPriceable(routes, together) ? [priceCall(routes, together), ...pricesOfTiers(routes, together)] : [];
  const price = prices.find(({ amount }) => roundsToCost(amount, cost));
  if (price) return itemise(routes, [{ call: together, price }]);
  if (!routeOf(routes, together).trusts_stated_cost) return tokens;
  const stated = { ...together, statedCostUsd: formatDecimal(cost) };
  return itemise(routes, [{ call: stated, price: priceCall(routes, stated) }]);
}

/** Returns whether a call can be priced, either by its route's prices or by the cost that the provider stated. */
function isPriceable(routes: readonly Route[], call: ChargedCall): boolean {
  const route = routeOf(routes, call);
  return hasStatedCost(route, call) || findTierPrices(route, call.servedTier).prices.length > 0;
}

/**
 * Returns a call's price in each tier. The usage may be the sum of several calls, and the sum can reach a higher tier
 * than the calls were charged in.
 */
function pricesOfTiers(routes: readonly Route[], call: ChargedCall): CallPrice[] {
  const route = routeOf(routes, call);
  const { prices, multiplier } = findTierPrices(route, call.servedTier);
  return prices.map((tier) => {
    const lines = priceLines(call.usage, { tier, multiplier });
    return { route, tier, multiplier, lines, amount: sumOfLines(lines) };
  });
}

function itemise(routes: readonly Route[], priced: readonly PricedCall[]): CostExplanation {
  return {
    lines: priced.flatMap((each, index) => linesOf(each, priced.length > 1 ? index + 1 : null)),
    calls: priced.map(({ call, price }, index) => {
      const { position, provider, model } = routeOf(routes, { route: price.route.position });
      const tariff = "stated" in price ? { minInputTokens: 0, multiplier: "1" } : tariffOf(price);
      return { call: index + 1, route: position, provider, model, serviceTier: call.servedTier ?? null, ...tariff };
    }),
    amount: priced.map(({ price }) => price.amount).reduce(add, zero),
  };
}

function tariffOf({ tier, multiplier }: Exclude<CallPrice, { stated: true }>) {
  return { minInputTokens: tier.min_input_tokens, multiplier: formatDecimal(multiplier) };
}

function linesOf({ call, price }: PricedCall, number: number | null): PricingLine[] {
  const lines =
    "stated" in price
      ? [...createUnpricedLines(call.usage), amountLine("stated_cost", price.amount)]
      : price.lines.map(({ item, count, pricedAs, unitPrice, amount }) => ({
          item,
          count,
          pricedAs: pricedAs === item ? null : pricedAs,
          unitPriceUsd: formatDecimal(unitPrice),
          amountUsd: formatDecimal(amount),
        }));
  return lines.map((line) => ({ ...line, call: number }));
}

function amountLine(item: PricingLine["item"], amount: Decimal): PricingLine {
  return { call: null, item, count: null, pricedAs: null, unitPriceUsd: null, amountUsd: formatDecimal(amount) };
}

function createUnpricedLines(usage: TokenCounts): PricingLine[] {
  return usageItems(usage).map(({ item, count }) => {
    return { call: null, item, count, pricedAs: null, unitPriceUsd: null, amountUsd: null };
  });
}

function roundsToCost(exact: Decimal, cost: Decimal): boolean {
  return formatDecimal(roundToStoredUsd(exact)) === formatDecimal(cost);
}

function chargedCall(route: number, { served_tier, stated_cost_usd, ...usage }: ChargedUsage): ChargedCall {
  return {
    route,
    usage,
    ...(served_tier === undefined ? {} : { servedTier: served_tier }),
    ...(stated_cost_usd === undefined ? {} : { statedCostUsd: stated_cost_usd }),
  };
}

function countsOf(run: RunSummary): TokenCounts {
  const { cacheWrite1hTokens } = run.priced;
  return {
    input_tokens: run.inputTokens,
    cached_input_tokens: run.cachedInputTokens,
    cache_write_tokens: run.cacheWriteTokens - cacheWrite1hTokens,
    cache_write_1h_tokens: cacheWrite1hTokens,
    audio_input_tokens: run.audioInputTokens,
    image_input_tokens: run.imageInputTokens,
    output_tokens: run.outputTokens,
    reasoning_tokens: run.reasoningTokens,
    audio_output_tokens: run.audioOutputTokens,
    fee_requests: run.feeRequests,
  };
}

/** Returns whether a run's recorded cost of 0 means that its cost is unknown, or not known yet. */
export function isCostUnknown({ status, usageSource, costUsd, priced }: RunSummary): boolean {
  if (status === "running") return true;
  return usageSource === "unavailable" && (priced.swept ? Number(costUsd) === 0 : priced.askedProvider);
}

function notesOf({ status, usageSource, priced }: RunSummary, explained: CostExplanation | null): PricingNote[] {
  const has = (item: PricingLine["item"]) => explained?.lines.some((line) => line.item === item) ?? false;
  const isUnknown = usageSource === "unavailable" && !priced.swept;
  const notes: Record<PricingNote, boolean> = {
    running: status === "running",
    not_called: isUnknown && !priced.askedProvider,
    usage_unknown: isUnknown && priced.askedProvider,
    exempt: priced.exempt,
    partial: usageSource === "provider_partial",
    estimated: usageSource === "estimated_partial",
    swept: priced.swept,
    stated_cost: has("stated_cost"),
    several_calls: (explained?.calls.length ?? 0) > 1,
    not_itemised: has("not_itemised"),
    uncounted_attempts: uncountedAttempts(priced.attempts, usageSource === "unavailable").length > 0,
    repeats_free: priced.idempotent && status !== "running" && !(isUnknown && !priced.askedProvider),
  };
  return (Object.keys(notes) as PricingNote[]).filter((note) => notes[note]);
}

/** Returns the attempts that the provider may charge for but whose usage is not part of the run's cost. */
function uncountedAttempts(attempts: readonly Attempt[], isUnknown: boolean): Attempt[] {
  const calls = attempts.filter(({ failure }) => failure !== "skipped");
  return calls.filter(
    ({ may_have_charged, charged }, index) => may_have_charged && !charged && (isUnknown || index < calls.length - 1),
  );
}
