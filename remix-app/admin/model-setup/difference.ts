import type { Confirmation } from "../confirmation.ts";
import { formatQuantity } from "../labels.ts";
import { fieldChanges, priceChanges } from "../model-preview.ts";
import { type ConsoleModel, listModelFaults } from "../models.ts";
import { findCurrentPrice } from "./fields.ts";
import { isSameRoute, type ModelSetup, type SetupRoute } from "./read-setup.ts";

/** Describes what saving a form changes in a model, one sentence or field a line. */
export function describeSetup(model: ConsoleModel, setup: ModelSetup): string[] {
  const lines = [
    ...settingLines(model, setup),
    ...routeLines(model, setup),
    ...setup.prices.flatMap((price) => {
      const [validity = "", , ...amounts] = priceChanges(model, { ...price, from: null });
      if (amounts.length === 0) return [];
      // Only the prices of a model that exists can have a date on which another one follows.
      return [...(model.id === "" ? [] : [validity]), ...amounts].map(
        (line) => `Price of ${price.providerId}: ${line}`,
      );
    }),
    ...planLines(model, setup),
    ...enabledLines(model, setup),
  ];
  return lines.length > 0 ? lines : ["Nothing changes."];
}

function settingLines(model: ConsoleModel, setup: ModelSetup): string[] {
  const { displayName, ownedBy, contextWindow, outputLimit, defaultOutputLimit, voices, studioDefault } = setup;
  const fields = { displayName, ownedBy, contextWindow, outputLimit, defaultOutputLimit, voices, studioDefault };
  if (model.id === "") return fieldChanges(null, { id: setup.model, ...fields });
  const { id, kind, isDefault, defaultOfKind } = model;
  return [
    ...fieldChanges(model, { ...fields, isDefault: setup.isDefault }),
    ...(setup.isDefault && defaultOfKind !== null && defaultOfKind !== id
      ? [`${defaultOfKind} is no longer the default ${kind} model.`]
      : []),
    ...(isDefault && !setup.isDefault
      ? [`There will be no default ${kind} model, so requests that name no model get 404.`]
      : []),
  ];
}

/** A route without any rules of its own. */
const plainRoute = {
  enabled: true,
  trustsStatedCost: false,
  tierMultipliers: {},
  firstByteSeconds: null,
  idleSeconds: null,
  totalSeconds: null,
} as const;

type RouteName = Pick<SetupRoute, "providerId" | "providerModel">;

const nameOf = ({ providerId, providerModel }: RouteName) => `${providerId}, ${providerModel}`;

function routeLines({ routes: before }: ConsoleModel, { routes }: ModelSetup): string[] {
  const added = routes.filter((route) => !before.some((each) => isSameRoute(each, route)));
  const removed = before.filter((route) => !routes.some((each) => isSameRoute(each, route)));
  const orderOf = (list: readonly RouteName[], without: readonly RouteName[]) =>
    list.filter((route) => !without.includes(route)).map(nameOf);
  const isReordered = orderOf(before, removed).join("\n") !== orderOf(routes, added).join("\n");
  return [
    ...routes.flatMap((route) => {
      const old = before.find((each) => isSameRoute(each, route));
      const changes = fieldChanges(old ?? { ...route, ...plainRoute }, route);
      const lines = changes.map((line) => `Route ${nameOf(route)}: ${line}`);
      return old ? lines : [`Route ${nameOf(route)} is added.`, ...lines];
    }),
    ...removed.map((route) => `Route ${nameOf(route)} is removed. The prices of ${route.providerId} are kept.`),
    ...(isReordered || (added.length > 0 && routes.length > 1)
      ? [`Routes are tried in this order: ${routes.map(nameOf).join("; ")}.`]
      : []),
  ];
}

function planLines({ plans }: ConsoleModel, setup: ModelSetup): string[] {
  return plans.flatMap(({ id, name, granted, workspaces }) => {
    if (granted === setup.plans.includes(id)) return [];
    const who = `the ${formatQuantity(workspaces, "workspace")} on the ${name} plan`;
    return [granted ? `Withdrawn from ${who}, unless another grant allows it.` : `Granted to ${who}.`];
  });
}

function enabledLines(model: ConsoleModel, setup: ModelSetup): string[] {
  if (model.enabled) return listNewFaults(model, setup).map((fault) => `${fault}, so callers will get 404.`);
  if (!setup.enabled) return [];
  const faults = listSetupFaults(model, setup).map((fault) => `${fault}, so callers still get 404.`);
  return ["The model is enabled.", ...faults];
}

/** Returns why callers could not use the model if it was saved like this and enabled. */
export function listSetupFaults(model: ConsoleModel, setup: ModelSetup): string[] {
  const open = setup.routes.filter(({ enabled }) => enabled);
  const priced = new Set(setup.prices.map(({ providerId }) => providerId));
  return listModelFaults({
    ...model,
    hasRoute: open.length > 0,
    hasPrice: open.some(
      ({ providerId }) => priced.has(providerId) || findCurrentPrice(model, providerId) !== undefined,
    ),
    hasGrant: setup.plans.length > 0 || model.workspaces.length > 0,
    studioDefault: setup.studioDefault,
  });
}

/** Returns why callers could no longer use the model, of what they can use now. */
function listNewFaults(model: ConsoleModel, setup: ModelSetup): string[] {
  const before = listModelFaults(model);
  return listSetupFaults(model, setup).filter((fault) => !before.includes(fault));
}

/**
 * Returns what to type if saving takes the model away from callers: it disables or removes the last enabled route,
 * leaves an enabled model without a price, withdraws the model from a plan, no longer offers it, or leaves its kind without a default model.
 */
export function confirmationOf(model: ConsoleModel, setup: ModelSetup): Confirmation | null {
  const hasOpenRoute = ({ routes }: { routes: readonly { enabled: boolean }[] }) =>
    routes.some(({ enabled }) => enabled);
  const takesAway =
    (hasOpenRoute(model) && !hasOpenRoute(setup)) ||
    (model.enabled && listNewFaults(model, setup).length > 0) ||
    model.plans.some(({ id, granted }) => granted && !setup.plans.includes(id)) ||
    (model.studioDefault && !setup.studioDefault) ||
    (model.isDefault && !setup.isDefault);
  return model.id !== "" && takesAway ? { text: model.id, what: "the model’s ID" } : null;
}
