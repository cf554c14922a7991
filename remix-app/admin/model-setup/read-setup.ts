import { z } from "zod";
import { modelFields, modelIdFields, optionalAmount, routeFields } from "../model-forms.ts";
import type { Amounts } from "../model-preview.ts";
import type { ConsoleModel, ModelPrice } from "../models.ts";
import { type PriceClass, priceClasses } from "../prices/price-source.ts";
import { stripTrailingZeros } from "../prices/proposal.ts";
import {
  advancedRouteFields,
  chosenProvider,
  hasPriceFields,
  listChosenProviders,
  listRoutes,
  priceField,
  routeField,
  type Typed,
} from "./fields.ts";

export type SetupRoute = z.output<typeof routeFields>;

/** The prices of a provider that begin when the form is saved, as USD in decimal text. */
type SetupPrice = Amounts & {
  providerId: string;
  serviceTier: "default";
  minInputTokens: 0;
  /** The newest price that the admin saw, or null. */
  latest: string | null;
  /** The number of prices that the admin saw. */
  seen: number;
  /** The id of the price in force that the admin saw, or null. */
  replaces: string | null;
};

/** A whole model, as `private.save_model_setup` saves it. */
export type ModelSetup = Omit<z.output<typeof modelFields>, "version"> & {
  model: string;
  /** Null for a new model. */
  version: string | null;
  routes: SetupRoute[];
  /** The prices that differ from those that the form showed. */
  prices: SetupPrice[];
  /** The plans that are granted the model. */
  plans: string[];
  seenPlans: string[];
  /** Null leaves the model as it is. The form never disables a model. */
  enabled: true | null;
};

/** The error for the class of prices that a price can't lack. */
const amountRequired = "Enter an amount in USD, or leave all prices of this provider empty";

const seenPattern = /^(\d{0,18}):(\d{1,9}):(\d{0,18})$/;

type Issue = z.ZodError["issues"][number];

function issueAt(name: string, message: string): Issue {
  return { code: "custom", path: [name], message };
}

/**
 * Reads the form of a model.
 * @returns what to save, or what to correct, by the name of the field
 */
export function readSetup(
  typed: Typed,
  model: ConsoleModel,
): { setup: ModelSetup; error: null } | { setup: null; error: z.ZodError } {
  const isNew = model.id === "";
  const id = isNew ? modelIdFields.safeParse(typed) : { data: { id: model.id }, error: undefined };
  const settings = modelFields.safeParse({ ...typed, kind: isNew ? typed.kind : model.kind });
  const routes = readRoutes(typed);
  const prices = readPrices(typed, model);
  const issues = [...(id.error?.issues ?? []), ...(settings.error?.issues ?? []), ...routes.issues, ...prices.issues];
  if (issues.length > 0 || !id.data || !settings.data) return { setup: null, error: new z.ZodError(issues) };
  const { version, ...others } = settings.data;
  const setup: ModelSetup = {
    ...others,
    model: id.data.id,
    version: isNew ? null : version,
    routes: routes.read,
    prices: prices.read,
    plans: model.plans.map((plan) => plan.id).filter((plan) => `plan_${plan}` in typed),
    seenPlans: (typed.seenPlans ?? "").split(",").filter(Boolean),
    enabled: "enabled" in typed ? true : null,
  };
  return { setup, error: null };
}

/** Reads the form of a model, if it is complete and valid. */
export function findSetup(typed: Typed, model: ConsoleModel): ModelSetup | null {
  return readSetup(typed, model).setup;
}

const emptyRoute = Object.fromEntries(advancedRouteFields.map((name) => [name, ""]));

function readRoutes(typed: Typed): { read: SetupRoute[]; issues: Issue[] } {
  const parsed: (SetupRoute | null)[] = [];
  const issues: Issue[] = [];
  for (const [index, fields] of listRoutes(typed).entries()) {
    const number = index + 1;
    const providerId = chosenProvider(fields);
    const { data: route, error } = routeFields.safeParse({ ...emptyRoute, ...fields, providerId });
    const isOther = fields.providerId === "" && "otherProvider" in fields;
    for (const issue of error?.issues ?? []) {
      const name = String(issue.path[0]);
      const shown = name === "providerId" && isOther ? "otherProvider" : name;
      issues.push({ ...issue, path: [routeField(number, shown)] });
    }
    const same = route ? parsed.findIndex((each) => each !== null && isSameRoute(each, route)) : -1;
    if (same >= 0) {
      const name = routeField(number, "providerModel");
      issues.push(issueAt(name, `Enter another model or provider: route ${same + 1} already has these`));
    } else if (route && !hasPriceFields(typed, providerId)) {
      issues.push(issueAt(routeField(number, "providerId"), `Check the prices of ${providerId}, then save again`));
    }
    parsed.push(route ?? null);
  }
  return { read: parsed.filter((route) => route !== null), issues };
}

/** Returns whether two routes go to the same model of the same provider. */
export function isSameRoute(
  one: Pick<SetupRoute, "providerId" | "providerModel">,
  other: Pick<SetupRoute, "providerId" | "providerModel">,
): boolean {
  return one.providerId === other.providerId && one.providerModel === other.providerModel;
}

/** Returns the typed amounts of a provider, as text. Prices that the form didn't show are empty. */
export function readTypedAmounts(typed: Typed, providerId: string): Record<PriceClass, string> {
  const amounts = priceClasses.map((name) => [name, (typed[priceField(providerId, name)] ?? "").trim()]);
  return Object.fromEntries(amounts) as Record<PriceClass, string>;
}

const amountFields = z.object(
  Object.fromEntries(priceClasses.map((name) => [name, optionalAmount])) as Record<PriceClass, typeof optionalAmount>,
);

function readPrices(typed: Typed, model: ConsoleModel): { read: SetupPrice[]; issues: Issue[] } {
  const read: SetupPrice[] = [];
  const issues: Issue[] = [];
  for (const providerId of listChosenProviders(typed)) {
    if (!hasPriceFields(typed, providerId)) continue;
    const { data: amounts, error } = amountFields.safeParse(readTypedAmounts(typed, providerId));
    for (const issue of error?.issues ?? []) {
      issues.push({ ...issue, path: [priceField(providerId, String(issue.path[0]))] });
    }
    if (!amounts) continue;
    const [, latest = "", seen = "0", shownId] = seenPattern.exec(typed[priceField(providerId, "seen")] ?? "") ?? [];
    const shown = model.prices.find((price) => String(price.id) === shownId);
    // A price that the admin left alone is not sent: by now, a scheduled one may be in force.
    if (shown && hasAmounts(shown, amounts)) continue;
    if (Object.values(amounts).every((amount) => amount === null)) {
      if (shown) {
        const message = "Enter an amount in USD: a price can be replaced, but not removed";
        issues.push(issueAt(priceField(providerId, "inputUsd"), message));
      }
      continue;
    }
    const { inputUsd, outputUsd } = amounts;
    if (inputUsd === null) issues.push(issueAt(priceField(providerId, "inputUsd"), amountRequired));
    if (outputUsd === null) issues.push(issueAt(priceField(providerId, "outputUsd"), amountRequired));
    if (inputUsd === null || outputUsd === null) continue;
    const scope = { providerId, serviceTier: "default", minInputTokens: 0 } as const;
    read.push({
      ...amounts,
      inputUsd,
      outputUsd,
      ...scope,
      latest: latest || null,
      seen: Number(seen),
      replaces: shownId || null,
    });
  }
  return { read, issues };
}

function hasAmounts(price: ModelPrice, amounts: Readonly<Record<PriceClass, string | null>>): boolean {
  const text = (amount: string | null) => (amount === null ? null : stripTrailingZeros(amount));
  return priceClasses.every((name) => text(price[name]) === text(amounts[name]));
}
