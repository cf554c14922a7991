import { formatQuantity } from "../labels.ts";
import { providerIdPattern } from "../model-forms.ts";
import { multiplierText } from "../model-preview.ts";
import { tierPrices } from "../model-steps.ts";
import type { ConsoleModel, ConsoleRoute, ModelPrice } from "../models.ts";
import type { Plan } from "../plans.ts";
import { priceClasses } from "../prices/price-source.ts";
import { stripTrailingZeros } from "../prices/proposal.ts";

/**
 * The fields of the form by name, as a browser sends them. Names are flat: `route2_providerModel`,
 * `price_openai_inputUsd` and `plan_team`. Boxes that aren't ticked are missing.
 */
export type Typed = Readonly<Record<string, string>>;

/** The form offers to add routes up to this number. Models with more routes can still be edited. */
export const maxOfferedRoutes = 6;

/** The fields of a route that most routes leave empty. */
export const advancedRouteFields = ["tierMultipliers", "firstByteSeconds", "idleSeconds", "totalSeconds"] as const;

/** The amounts that every price has. */
export const requiredPrices = ["inputUsd", "outputUsd"] as const;

/** Returns the model that an empty form shows. */
export function createBlankModel(plans: readonly Pick<Plan, "id" | "name" | "workspaces">[] = []): ConsoleModel {
  return {
    id: "",
    kind: "chat",
    displayName: "",
    ownedBy: "",
    enabled: false,
    studioDefault: true,
    sortsAs: [],
    hasRoute: false,
    hasPrice: false,
    hasGrant: false,
    providers: [],
    prices: [],
    version: "",
    contextWindow: null,
    outputLimit: null,
    defaultOutputLimit: null,
    voices: [],
    isDefault: false,
    defaultOfKind: null,
    canDelete: false,
    routes: [],
    plans: plans.map(({ id, name, workspaces }) => ({ id, name, workspaces, granted: false })),
    workspaces: [],
  };
}

/** Returns a checkbox as a browser sends it. */
function box(name: string, isTicked: boolean): Record<string, string> {
  return isTicked ? { [name]: "on" } : {};
}

/** Returns the fields of a form that shows a model as it is. */
export function fieldsOf(model: ConsoleModel): Typed {
  const granted = model.plans.filter((plan) => plan.granted).map(({ id }) => id);
  const fields: Record<string, string> = {
    id: model.id,
    version: model.version,
    kind: model.kind,
    displayName: model.displayName,
    ownedBy: model.ownedBy,
    contextWindow: String(model.contextWindow ?? ""),
    outputLimit: String(model.outputLimit ?? ""),
    defaultOutputLimit: String(model.defaultOutputLimit ?? ""),
    voices: model.voices.join(", "),
    defaultOfKind: model.defaultOfKind ?? "",
    seenPlans: granted.join(","),
    ...box("studioDefault", model.studioDefault),
    ...box("isDefault", model.isDefault),
    ...Object.fromEntries(granted.map((id) => [`plan_${id}`, "on"])),
  };
  return completeFields(withRoutes(fields, model.routes.map(fieldsOfRoute)), model);
}

function fieldsOfRoute(route: ConsoleRoute): Record<string, string> {
  return {
    providerId: route.providerId,
    providerModel: route.providerModel,
    tierMultipliers: multiplierText(route.tierMultipliers),
    firstByteSeconds: String(route.firstByteSeconds ?? ""),
    idleSeconds: String(route.idleSeconds ?? ""),
    totalSeconds: String(route.totalSeconds ?? ""),
    ...box("enabled", route.enabled),
    ...box("trustsStatedCost", route.trustsStatedCost),
  };
}

/** Returns the name of a route's field. Routes count from 1. */
export function routeField(number: number, name: string): string {
  return `route${number}_${name}`;
}

/** Returns the name of a field of a provider's prices. */
export function priceField(providerId: string, name: string): string {
  return `price_${providerId}_${name}`;
}

/** Returns the fields of each route, without the prefix of their names, in the order of the routes. */
export function listRoutes(typed: Typed): Record<string, string>[] {
  const routes: Record<string, string>[] = [];
  while (routeField(routes.length + 1, "providerModel") in typed) {
    const prefix = routeField(routes.length + 1, "");
    const named = Object.entries(typed).filter(([name]) => name.startsWith(prefix));
    routes.push(Object.fromEntries(named.map(([name, value]) => [name.slice(prefix.length), value])));
  }
  return routes;
}

function withRoutes(typed: Typed, routes: readonly Record<string, string>[]): Typed {
  const others = Object.entries(typed).filter(([name]) => !/^route\d+_/.test(name));
  const named = routes.flatMap((route, index) =>
    Object.entries(route).map(([name, value]) => [routeField(index + 1, name), value] as const),
  );
  return Object.fromEntries([...others, ...named]);
}

/** Returns the provider that a route's fields choose, which may be typed next to “Other”. */
export function chosenProvider({ providerId = "", otherProvider = "" }: Readonly<Record<string, string>>): string {
  return (providerId || otherProvider).trim().toLowerCase();
}

/** Returns the providers of the routes, each once, in the order of the routes. */
export function listChosenProviders(typed: Typed): string[] {
  return [...new Set(listRoutes(typed).map(chosenProvider))].filter((id) => providerIdPattern.test(id));
}

/** Returns whether the form showed the prices of a provider. */
export function hasPriceFields(typed: Typed, providerId: string): boolean {
  return priceField(providerId, "seen") in typed;
}

type Prices = Pick<ConsoleModel, "prices">;

/** Returns the price of a provider that is in force for all inputs at the default service tier. */
export function findCurrentPrice(model: Prices, providerId: string): ModelPrice | undefined {
  return tierPrices(model, { providerId, minInputTokens: 0 }).find(
    ({ current, serviceTier }) => current && serviceTier === "default",
  );
}

/** Identifies the prices that an admin sees: the newest one, their number, and the one that the fields show. */
function seenPrices(model: Prices, providerId: string): string {
  const ids = tierPrices(model, { providerId, minInputTokens: 0 }).map(({ id }) => id);
  return `${Math.max(...ids, 0) || ""}:${ids.length}:${findCurrentPrice(model, providerId)?.id ?? ""}`;
}

/** Returns the fields of a provider's prices for all inputs at the default service tier. */
function fieldsOfPrices(model: Prices, providerId: string): Record<string, string> {
  const current = findCurrentPrice(model, providerId);
  return {
    [priceField(providerId, "seen")]: seenPrices(model, providerId),
    ...Object.fromEntries(
      priceClasses.map((name) => [priceField(providerId, name), stripTrailingZeros(current?.[name] ?? "")]),
    ),
  };
}

/** Adds the current prices of each chosen provider whose prices the form didn't show. */
export function completeFields(typed: Typed, model: Prices): Typed {
  const routes = listRoutes(typed).map((route) => {
    const { otherProvider: _, ...others } = route;
    return { ...others, providerId: chosenProvider(route) };
  });
  const missing = listChosenProviders(typed).filter((id) => !hasPriceFields(typed, id));
  return Object.assign({}, ...missing.map((id) => fieldsOfPrices(model, id)), withRoutes(typed, routes));
}

/**
 * Updates the fields that identify the state that the admin saw. After a conflict, the form shows
 * its differences from that state, and can be saved again.
 * @param options.changedPrices the providers whose prices the admin changed. Others get their current prices.
 */
export function acceptCurrent(
  typed: Typed,
  { model, changedPrices }: { model: ConsoleModel; changedPrices: readonly string[] },
): Typed {
  const { version = "", defaultOfKind = "", seenPlans = "" } = fieldsOf(model);
  const shown = listChosenProviders(typed).filter((id) => hasPriceFields(typed, id));
  const prices = shown.map((id) =>
    changedPrices.includes(id) ? { [priceField(id, "seen")]: seenPrices(model, id) } : fieldsOfPrices(model, id),
  );
  return Object.assign({}, typed, { version, defaultOfKind, seenPlans }, ...prices);
}

/**
 * Adds, removes or moves a route, or opens further fields, for a button's `intent`.
 * @param options.providerId the provider of an added route
 * @returns null for any other intent
 */
export function changeForm(typed: Typed, { intent, providerId }: { intent: string; providerId: string }): Typed | null {
  const routes = listRoutes(typed);
  if (intent === "add-route") {
    const providerModel = routes.at(-1)?.providerModel ?? typed.id ?? "";
    return withRoutes(typed, [...routes, { providerId, providerModel, enabled: "on" }]);
  }
  const [, opened] = /^open-price-([a-z0-9_]{1,32})$/.exec(intent) ?? [];
  if (opened !== undefined) return { ...typed, [priceField(opened, "opened")]: "1" };
  const [, verb, place = ""] = /^(open|move|remove)-route-(\d{1,3})$/.exec(intent) ?? [];
  const index = Number(place) - 1;
  const route = routes[index];
  if (!route) return null;
  const others = routes.toSpliced(index, 1);
  if (verb === "remove") return withRoutes(typed, others);
  if (verb === "move") return withRoutes(typed, others.toSpliced(Math.max(index - 1, 0), 0, route));
  return withRoutes(typed, routes.toSpliced(index, 1, { ...route, opened: "1" }));
}

/** Describes a plan next to its box. */
export function describePlan({ id, name, workspaces }: ConsoleModel["plans"][number]): string {
  return `${name} (${id}): ${formatQuantity(workspaces, "workspace")}`;
}
