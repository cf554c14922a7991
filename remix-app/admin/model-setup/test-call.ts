import { formatDecimal } from "#shared/decimal.ts";
import { type PriceItem, type TokenCounts, usageCostUsd } from "#shared/money.ts";
import type { ProviderListing, TestedEndpoint } from "#shared/provider-setup.ts";
import type { RouteTest } from "../../gateway/provider-setup.ts";
import { formatPriceUsd } from "../labels.ts";
import { optionalAmount } from "../model-forms.ts";
import type { PriceClass } from "../prices/price-source.ts";
import { describeRouteTest } from "../route-test-text.ts";
import { chosenProvider, listRoutes, type Typed } from "./fields.ts";
import { readTypedAmounts } from "./read-setup.ts";
import { type TestContext, type Tester, testRouteOnRecord } from "./recorded-test.ts";

/** The result of a test call, for its route. */
export interface TestResult {
  answered: boolean;
  text: string;
}

/** The number of calls that one press of the button makes. */
const maxTestedRoutes = 10;

/** The paths that serve each kind of model, in the order in which a test prefers them. */
const endpointsByKind = {
  chat: ["chat", "responses", "messages"],
  embedding: ["embeddings"],
  speech: ["speech"],
} as const satisfies Record<string, readonly TestedEndpoint[]>;

/** Returns the path by which a test calls a model, or null if the provider has none for this kind. */
export function chooseEndpoint(kind: string, endpoints: readonly string[]): TestedEndpoint | null {
  const preferred: readonly TestedEndpoint[] = Object.hasOwn(endpointsByKind, kind)
    ? endpointsByKind[kind as keyof typeof endpointsByKind]
    : [];
  return preferred.find((endpoint) => endpoints.includes(endpoint)) ?? null;
}

/**
 * Calls each route of a form once, all at the same time. Changes nothing but the audit log, and charges no credits.
 * @returns the results in the order of the routes
 */
export function testRoutes(
  context: TestContext,
  {
    typed,
    listing,
    tester,
    signal,
  }: { typed: Typed; listing: ProviderListing | null; tester: Tester; signal: AbortSignal },
): Promise<TestResult[]> {
  const kind = typed.kind ?? "";
  const [voice] = (typed.voices ?? "").split(/[,\n]/).map((name) => name.trim());
  return Promise.all(
    listRoutes(typed).map(async (route, index): Promise<TestResult> => {
      if (index >= maxTestedRoutes) return notTested(`a test calls at most ${maxTestedRoutes} routes`);
      const [provider, model = ""] = [chosenProvider(route), route.providerModel?.trim()];
      const configured = listing?.providers.find(({ id }) => id === provider);
      if (provider === "" || model === "") return notTested("enter the provider and its model name first");
      if (model.length > 200) return notTested("the model name has more than 200 characters");
      if ((voice ?? "").length > 64) return notTested("the voice has more than 64 characters");
      // Without a list, the gateway decides whether it knows the provider.
      const endpoint = chooseEndpoint(kind, configured?.endpoints ?? (listing ? [] : ["chat", "embeddings", "speech"]));
      if (listing && !configured) return notTested(`${provider} isn’t configured`);
      if (endpoint === null) return notTested(`${provider} doesn’t serve ${kind} models`);
      const voiceOption = endpoint === "speech" && voice ? { voice } : {};
      const test = await testRouteOnRecord(context, { provider, model, endpoint, ...voiceOption, tester, signal });
      const text = `${describeRouteTest(test)}${describeCost(typed, { provider, test })}`;
      return { answered: test.outcome === "answered", text };
    }),
  );
}

function notTested(reason: string): TestResult {
  return { answered: false, text: `Not tested: ${reason}.` };
}

function describeCost(typed: Typed, { provider, test }: { provider: string; test: RouteTest }): string {
  if (test.outcome !== "answered") return "";
  // JSON has no undefined members.
  const usage = test.usage as TokenCounts;
  const cost = testCostUsd(readTypedAmounts(typed, provider), { usage, servedTier: test.servedTier });
  return cost === null ? "" : ` At these prices it cost ${formatPriceUsd(cost)}.`;
}

const priceItemNames: Readonly<Record<PriceClass, PriceItem>> = {
  inputUsd: "input",
  cachedInputUsd: "cached_input",
  cacheWriteUsd: "cache_write",
  cacheWrite1hUsd: "cache_write_1h",
  outputUsd: "output",
  audioInputUsd: "audio_input",
  audioOutputUsd: "audio_output",
  imageInputUsd: "image_input",
  requestFeeUsd: "request_fee",
};

/** Returns what a test cost at the typed prices, as decimal text; null without valid prices. */
export function testCostUsd(
  typed: Readonly<Record<PriceClass, string>>,
  { usage, servedTier }: { usage: TokenCounts; servedTier: string | null },
): string | null {
  const amounts = Object.entries(typed).flatMap(([name, text]) => {
    const amount = optionalAmount.safeParse(text).data ?? null;
    return amount === null ? [] : [[priceItemNames[name as PriceClass], amount] as const];
  });
  const prices: Partial<Record<PriceItem, string>> = Object.fromEntries(amounts);
  const { input, output } = prices;
  if (input === undefined || output === undefined) return null;
  const tariff = { prices: [{ ...prices, min_input_tokens: 0, input, output }] };
  return formatDecimal(usageCostUsd(tariff, usage, servedTier ?? undefined));
}
