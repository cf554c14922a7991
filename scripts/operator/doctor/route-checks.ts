import { z } from "zod";
import type { Env } from "../../../remix-app/config/env.server.ts";
import { createServiceClient } from "../../../remix-app/supabase/data-api.ts";
import type { Endpoint } from "../../../supabase/functions/_gateway/providers/kinds/kind.ts";
import type { Provider } from "../../../supabase/functions/_gateway/providers/provider-settings.ts";
import { providerSettingName } from "../../../supabase/functions/_shared/provider-setting-names.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";
import type { Asked } from "./provider-checks.ts";

const readLimitMs = 10_000;

const catalogue = z.array(
  z.object({
    id: z.string(),
    kind: z.enum(["chat", "embedding", "speech"]),
    enabled: z.boolean(),
    prices: z.array(
      z.object({ providerId: z.string(), serviceTier: z.string(), minInputTokens: z.int(), current: z.boolean() }),
    ),
  }),
);
const routeRows = z.array(
  z.object({
    model_id: z.string(),
    position: z.int(),
    provider_id: z.string(),
    provider_model: z.string(),
    tier_multipliers: z.record(z.string(), z.number()),
  }),
);

type Route = z.output<typeof routeRows>[number];
/** An enabled model with its enabled routes and today's prices. `granted` means that a plan or workspace may use it. */
export type RoutedModel = Omit<z.output<typeof catalogue>[number], "enabled"> & { routes: Route[]; granted: boolean };

const grantRows = z.array(z.object({ model_id: z.string() }));
const pageSize = 1_000;

/**
 * Reads the enabled models through the Data API.
 * @throws Error if it does not answer
 */
export async function readModels(env: Env): Promise<RoutedModel[]> {
  const database = createServiceClient(env, { timeoutMs: readLimitMs });
  const listed = catalogue.safeParse((await database.schema("private").rpc("list_catalogue_models")).data);
  if (!listed.success) throw new Error("The catalogue of models cannot be read: apply the migrations.");
  const routes = await readAll(routeRows, (from, to) =>
    database
      .schema("ai")
      .from("model_routes")
      .select("model_id,position,provider_id,provider_model,tier_multipliers")
      .eq("enabled", true)
      .order("model_id")
      .order("position")
      .range(from, to),
  );
  const grants = await readAll(grantRows, (from, to) =>
    database.schema("ai").from("model_grants").select("model_id").order("id").range(from, to),
  );
  const granted = new Set(grants.map(({ model_id }) => model_id));
  return listed.data
    .filter(({ enabled }) => enabled)
    .map(({ id, kind, prices }) => ({
      id,
      kind,
      prices: prices.filter(({ current }) => current),
      routes: routes.filter(({ model_id }) => model_id === id),
      granted: granted.has(id),
    }));
}

/** Reads all rows page by page, since a project limits the rows of a response. */
async function readAll<Row>(
  rows: z.ZodType<Row[]>,
  readPage: (from: number, to: number) => PromiseLike<{ data: unknown }>,
): Promise<Row[]> {
  const all: Row[] = [];
  for (let page: Row[] | undefined; page === undefined || page.length > 0; all.push(...page)) {
    const read = rows.safeParse((await readPage(all.length, all.length + pageSize - 1)).data);
    if (!read.success)
      throw new Error("The routes and grants of models cannot be read: add ai to the Data API's schemas.");
    page = read.data;
  }
  return all;
}

const endpointsOf: Record<RoutedModel["kind"], readonly Endpoint[]> = {
  chat: ["chat", "responses", "messages"],
  embedding: ["embeddings"],
  speech: ["speech"],
};

const endpointOf = (kind: RoutedModel["kind"], provider: Provider) =>
  endpointsOf[kind].find((endpoint) => provider.kind.endpoints[endpoint]);

const nameOf = ({ model_id, position }: Route) => `route ${position} of ${model_id}`;

/** Lists the models that are routed to each provider. */
export function groupByProvider(
  models: readonly RoutedModel[],
  providers: ReadonlyMap<string, Provider>,
): Map<string, Asked[]> {
  const asked = new Map<string, Asked[]>();
  for (const { kind, routes } of models) {
    for (const route of routes) {
      const provider = providers.get(route.provider_id);
      const endpoint = provider && endpointOf(kind, provider);
      if (!endpoint) continue;
      const known = asked.get(route.provider_id) ?? [];
      const same = known.find((each) => each.model === route.provider_model && each.endpoint === endpoint);
      if (same) same.routes.push(nameOf(route));
      else known.push({ model: route.provider_model, endpoint, routes: [nameOf(route)] });
      asked.set(route.provider_id, known);
    }
  }
  return asked;
}

type Providers = ReadonlyMap<string, Provider> | undefined;

/**
 * Checks that each enabled model has a route, and that each route has a provider, an endpoint and a price.
 * @param providers undefined if their settings are unknown. Then providers and endpoints are not checked, and faults
 * are only warnings, because we don't know which models the functions should serve.
 */
export function checkRoutes(models: readonly RoutedModel[], providers: Providers): Finding[] {
  const judged = models.flatMap((model) => checkModel(model, providers));
  const findings = providers ? judged : judged.map(({ about, says }) => warn(about, says));
  if (models.length === 0) return [warn("models", "no model is enabled: every call is refused.")];
  return judged.some(({ level }) => level === "fail")
    ? findings
    : [
        ok("models", `${models.length} enabled, each route with ${providers ? "a provider and " : ""}a price`),
        ...findings,
      ];
}

function checkModel(model: RoutedModel, providers: Providers): Finding[] {
  const { id, routes } = model;
  if (routes.length === 0) {
    const advice = "Add one (ai.model_routes), or disable the model in the console.";
    return [fail("models", `route: ${id} has no enabled route, so callers get 404. ${advice}`)];
  }
  const judged = routes.map((route) => ({ route, fault: faultOf(route, model, providers) }));
  const usable = judged.filter(({ fault }) => fault === undefined).map(({ route }) => route);
  const effect = usable.length > 0 ? "calls skip it" : "callers get 404";
  return [
    ...judged.flatMap(({ route, fault }) =>
      fault ? [fail("models", `${fault.what}: ${nameOf(route)} ${fault.says}, so ${effect}. ${fault.advice}`)] : [],
    ),
    ...checkTiers(model, usable),
    ...(model.granted
      ? []
      : [warn("models", `grant: no plan or workspace may use ${id}, so callers get 404. ${grantAdvice}`)]),
  ];
}

const grantAdvice = "Add a grant (ai.model_grants), or disable the model in the console.";

type RouteFault = { what: "route" | "kind" | "price"; says: string; advice: string };

function faultOf(
  { provider_id: id }: Route,
  { kind, prices }: RoutedModel,
  providers: Providers,
): RouteFault | undefined {
  const provider = providers?.get(id);
  if (providers && !provider) {
    const advice = `Add its settings, such as ${providerSettingName(id, "KIND")} (docs/providers.md), or disable the route.`;
    return { what: "route", says: `leads to ${id}, which has no settings`, advice };
  }
  if (provider && !endpointOf(kind, provider)) {
    const says = `leads to ${id}, which has no endpoint for ${kind} models`;
    return {
      what: "kind",
      says,
      advice: `Correct ${providerSettingName(id, "KIND")} or ${providerSettingName(id, "ENDPOINTS")}, or disable the route.`,
    };
  }
  const own = prices.filter(({ providerId }) => providerId === id);
  const advice = "Add a price in the console under Models.";
  if (own.length === 0) return { what: "price", says: `has no current price for ${id}`, advice };
  return undefined;
}

/** Finds service tiers that only some routes have a price for, and prices that do not start at the first token. */
function checkTiers({ id, prices }: RoutedModel, routes: readonly Route[]): Finding[] {
  const tiersOf = ({ provider_id, tier_multipliers }: Route) =>
    new Set([
      ...prices.filter(({ providerId }) => providerId === provider_id).map(({ serviceTier }) => serviceTier),
      ...Object.keys(tier_multipliers),
    ]);
  const tiers = new Set(routes.flatMap((route) => [...tiersOf(route)]));
  tiers.delete("default");
  const unpriced = [...tiers].flatMap((tier) => {
    const without = routes.filter((route) => !tiersOf(route).has(tier)).map(({ position }) => position);
    const says = `price: ${id} has a price for the tier ${tier}, but not on route ${without.join(", ")}, so calls that name it get 400.`;
    return without.length > 0 ? [warn("models", `${says} Add the price, or a multiplier (docs/providers.md).`)] : [];
  });
  const unbegun = routes.filter(
    ({ provider_id }) =>
      !prices.some(
        ({ providerId, serviceTier, minInputTokens }) =>
          providerId === provider_id && serviceTier === "default" && minInputTokens === 0,
      ),
  );
  return [
    ...unpriced,
    ...unbegun.map((route) =>
      fail(
        "models",
        `price: ${nameOf(route)} has no price of the tier default from 0 tokens on. Add it in the console under Models.`,
      ),
    ),
  ];
}
