import fc from "fast-check";
import { type ChargedCall, computeRunCost, type PricedRoute } from "#shared/call-price.ts";
import type { TokenCounts } from "#shared/money.ts";
import { type RunSummary, runSummary } from "./run-schema.ts";

const micro = (max: number) =>
  fc.nat({ max }).map((units) => `${Math.floor(units / 1e6)}.${String(units % 1e6).padStart(6, "0")}`);
const price = micro(80_000_000);
const perhaps = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const tiers = ["flex", "priority", "scale"] as const;

const randomTier = fc
  .record({
    service_tier: perhaps(fc.constantFrom("flex", "priority")),
    min_input_tokens: fc.constantFrom(0, 1_000, 200_000),
    input: price,
    cached_input: perhaps(price),
    cache_write: perhaps(price),
    cache_write_1h: perhaps(price),
    output: price,
    audio_input: perhaps(price),
    audio_output: perhaps(price),
    image_input: perhaps(price),
    request_fee: perhaps(micro(100_000)),
  })
  .map((tier) => JSON.parse(JSON.stringify(tier)) as PricedRoute["prices"][number]);

type Route = RunSummary["priced"]["routes"][number];

/** Two routes with random prices, tiers, thresholds and multipliers. */
export const randomRoutes: fc.Arbitrary<Route[]> = fc
  .array(
    fc.record({
      base: randomTier,
      more: fc.array(randomTier, { maxLength: 3 }),
      tier_multipliers: fc.record({ priority: fc.constantFrom(1, 1.75, 0.5, 2.5) }),
      trusts_stated_cost: fc.boolean(),
    }),
    { minLength: 2, maxLength: 2 },
  )
  .map((routes) =>
    routes.map(({ base, more, ...route }, index) => {
      const { service_tier: _, ...first } = base;
      return {
        position: index + 1,
        provider: `provider-${index + 1}`,
        model: "upstream",
        prices: [{ ...first, min_input_tokens: 0 }, ...more] as Route["prices"],
        ...route,
      };
    }),
  );

const tokens = fc.oneof(fc.nat({ max: 50 }), fc.nat({ max: 300_000 }));
const part = perhaps(fc.nat({ max: 2_000 }));
const randomUsage = fc
  .record({
    input_tokens: tokens,
    cached_input_tokens: part,
    cache_write_tokens: part,
    cache_write_1h_tokens: part,
    audio_input_tokens: part,
    image_input_tokens: part,
    output_tokens: tokens,
    reasoning_tokens: part,
    audio_output_tokens: part,
    fee_requests: perhaps(fc.nat({ max: 5 })),
  })
  .map((usage) => JSON.parse(JSON.stringify(usage)) as TokenCounts);

/** One to four calls with random usage, on any route and tier. */
export const randomCalls: fc.Arbitrary<ChargedCall[]> = fc
  .array(
    fc.record({
      route: fc.constantFrom(1, 2),
      usage: randomUsage,
      servedTier: perhaps(fc.constantFrom("default", ...tiers)),
      statedCostUsd: perhaps(fc.nat({ max: 10 ** 9 }).map((units) => `0.${String(units).padStart(14, "0")}`)),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((calls) => JSON.parse(JSON.stringify(calls)) as ChargedCall[]);

/** Returns a succeeded run with the given calls, as returned by `ai.run_summary`. */
export function pricedRun({
  routes,
  calls,
  markup = "1.2",
}: {
  routes: readonly Route[];
  calls: readonly ChargedCall[];
  markup?: string;
}): RunSummary {
  const sum = (name: keyof TokenCounts) => calls.reduce((total, { usage }) => total + (usage[name] ?? 0), 0);
  const last = calls.at(-1);
  const creditsPerUsd = String(Number(markup) * 10_000);
  const { cost_usd, credits } = computeRunCost({ routes, credits_per_usd: creditsPerUsd }, calls);
  const id = "0199c5b8-0000-7000-8000-000000000000";
  const at = "2026-03-01T12:00:00Z";
  return runSummary.parse({
    id,
    requestId: "req_1",
    createdAt: at,
    settledAt: at,
    model: "demo-chat",
    feature: "chat",
    entityId: null,
    credentialSource: "key",
    executionMode: "background",
    keyId: id,
    keyName: "CI",
    appId: null,
    appName: null,
    memberId: id,
    memberName: "Ada",
    userId: null,
    provider: routes[0]?.provider ?? null,
    streamed: false,
    status: "succeeded",
    httpStatus: 200,
    errorCode: null,
    usageSource: "provider",
    inputTokens: sum("input_tokens"),
    cachedInputTokens: sum("cached_input_tokens"),
    outputTokens: sum("output_tokens"),
    reasoningTokens: sum("reasoning_tokens"),
    audioInputTokens: sum("audio_input_tokens"),
    audioOutputTokens: sum("audio_output_tokens"),
    cacheWriteTokens: sum("cache_write_tokens") + sum("cache_write_1h_tokens"),
    imageInputTokens: sum("image_input_tokens"),
    feeRequests: sum("fee_requests"),
    servedTier: calls.findLast(({ servedTier }) => servedTier !== undefined)?.servedTier ?? null,
    marks: [],
    billedCredits: credits,
    unmeteredCredits: "0",
    costUsd: cost_usd,
    firstByteMs: null,
    latencyMs: 12,
    priced: {
      cacheWrite1hTokens: sum("cache_write_1h_tokens"),
      exempt: false,
      swept: false,
      idempotent: false,
      askedProvider: true,
      reservedCredits: null,
      markup,
      creditsPerUsd,
      route: last?.route ?? null,
      routes,
      attempts: calls.map(({ route, usage, servedTier, statedCostUsd }) =>
        calls.length > 1
          ? { route, charged: { ...usage, served_tier: servedTier, stated_cost_usd: statedCostUsd } }
          : { route },
      ),
    },
  });
}
