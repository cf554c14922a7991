import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { formatDateTime } from "../http/date-text.ts";
import type { Confirmation } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import { formatPriceUsd } from "./labels.ts";
import {
  cancelFields,
  grantFields,
  modelFields,
  newModelFields,
  priceFields,
  routeFields,
  versionFields,
} from "./model-forms.ts";
import { fieldChanges, priceChanges } from "./model-preview.ts";
import { type ConsoleModel, type ConsoleRoute, listModelFaults, type ModelPrice } from "./models.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** The model, and the route, price or grant that a step changes. */
export interface StepScope {
  model: ConsoleModel;
  /** Null when a route is added. */
  route: ConsoleRoute | null;
  price: ModelPrice | null;
  providerId: string;
  minInputTokens: number;
  /** `name` describes the plan's workspaces or names the workspace. It can begin a sentence. */
  grantee: { plan: string | null; workspace: string | null; name: string };
}

interface StepParts<Fields extends z.ZodType> {
  title: string | ((scope: StepScope) => string);
  /** Each effect is one sentence. */
  effects: (scope: StepScope) => string[];
  fields: Fields;
  /** Hidden form fields that identify the state that the admin saw. */
  hidden?: (scope: StepScope) => Record<string, string | number>;
  /** Describes what the filled-in form changes. Omitted if `effects` already describes every change. */
  preview?: (scope: StepScope, fieldValues: z.output<Fields>) => string[];
  /**
   * Returns whether the change deletes something, or stops callers from using the model. `fieldValues` is null until a
   * valid form was sent.
   */
  destroys?: (scope: StepScope, fieldValues: z.output<Fields> | null) => boolean;
  /** The database function and its arguments. */
  sql: string;
  change: (scope: StepScope, fieldValues: z.output<Fields>) => Record<string, unknown>;
}

function defineStep<Fields extends z.ZodType>(parts: StepParts<Fields>) {
  const { title, fields, preview, hidden, destroys, change, ...step } = parts;
  return {
    ...step,
    titleOf: (scope: StepScope) => (typeof title === "string" ? title : title(scope)),
    hiddenOf: (scope: StepScope) => hidden?.(scope) ?? {},
    /** Returns what to type to confirm the step with the submitted form, or with none yet. */
    confirmationOf: (scope: StepScope, typed: Record<string, unknown> = {}): Confirmation | null =>
      destroys?.(scope, fields.safeParse(typed).data ?? null) ? { text: scope.model.id, what: "the model’s ID" } : null,
    hasPreview: preview !== undefined,
    /** Reads the fields of this step from the submitted form. */
    read(typed: Record<string, unknown>, scope: StepScope) {
      const fieldValues = fields.safeParse(typed);
      if (!fieldValues.success) return { success: false as const, error: fieldValues.error };
      return {
        success: true as const,
        change: change(scope, fieldValues.data),
        preview: preview?.(scope, fieldValues.data) ?? [],
      };
    },
  };
}

const versionField = ({ model: { version } }: StepScope) => ({ version });

function isLastEnabledRoute({ model, route }: StepScope): boolean {
  return route?.enabled === true && !hasOtherEnabledRoute(model, route);
}

function hasOtherEnabledRoute({ routes }: ConsoleModel, route: ConsoleRoute | null): boolean {
  return routes.some(({ enabled, position }) => enabled && position !== route?.position);
}

const immutableNotice = "The ID and kind can’t be changed later.";

export const modelSteps = {
  new: defineStep({
    title: "Add model",
    effects: () => [
      `The model starts out disabled. Callers get 404 until you add a route, a price and a grant, and enable it. ${immutableNotice}`,
      "Once it has a route, price proposals suggest the prices and limits that you leave out here.",
    ],
    fields: newModelFields,
    preview: (_, fieldValues) => fieldChanges(null, fieldValues),
    sql: "save_model",
    change: (_, { id, ...fieldValues }) => ({ ...fieldValues, model: id }),
  }),
  edit: defineStep({
    title: "Edit model",
    effects: ({ model }) => [
      `Once you confirm, the settings apply to new requests to ${model.displayName}.`,
      "If the model isn’t offered to workspaces, callers in all of them get 404, even with a grant.",
    ],
    destroys: ({ model }, fieldValues) =>
      fieldValues !== null &&
      ((model.studioDefault && !fieldValues.studioDefault) || (model.isDefault && !fieldValues.isDefault)),
    fields: modelFields,
    hidden: (scope) => ({
      ...versionField(scope),
      kind: scope.model.kind,
      defaultOfKind: scope.model.defaultOfKind ?? "",
    }),
    preview: ({ model }, fieldValues) => [
      ...fieldChanges(model, fieldValues),
      ...(fieldValues.isDefault && model.defaultOfKind !== null && model.defaultOfKind !== model.id
        ? [`${model.defaultOfKind} is no longer the default ${model.kind} model.`]
        : []),
      ...(model.isDefault && !fieldValues.isDefault
        ? [`There will be no default ${model.kind} model, so requests that name no model get 404.`]
        : []),
    ],
    sql: "save_model",
    change: ({ model: { id } }, fieldValues) => ({ ...fieldValues, model: id }),
  }),
  enable: defineStep({
    title: "Enable model",
    effects: ({ model }) => [
      `Once you confirm, every workspace with a grant can use ${model.displayName}.`,
      ...listModelFaults(model).map((fault) => `${fault}, so callers still get 404.`),
    ],
    fields: z.object({}),
    sql: "set_model_enabled",
    change: ({ model: { id } }) => ({ model: id, enabled: true }),
  }),
  disable: defineStep({
    title: "Disable model",
    effects: ({ model }) => [
      `Once you confirm, requests to ${model.displayName} get 404. Requests in progress finish.`,
      ...(model.isDefault
        ? [`It is the default ${model.kind} model, so requests that name no model also get 404.`]
        : []),
      "Its routes, prices, grants and runs stay.",
    ],
    destroys: () => true,
    fields: z.object({}),
    sql: "set_model_enabled",
    change: ({ model: { id } }) => ({ model: id, enabled: false }),
  }),
  delete: defineStep({
    title: "Delete model",
    effects: ({ model }) => [
      `${model.displayName} was never enabled. It is deleted with its routes, prices and grants, and its ID can be used again.`,
    ],
    destroys: () => true,
    fields: versionFields,
    hidden: versionField,
    sql: "delete_model",
    change: ({ model: { id } }, fieldValues) => ({ ...fieldValues, model: id }),
  }),
  route: defineStep({
    title: ({ route }) => (route ? "Edit route" : "Add route"),
    effects: ({ model }) => [
      `Once you confirm, new requests to ${model.displayName} try its enabled routes in this order. Requests in progress aren’t affected.`,
      "A route is skipped if its provider has no price or isn’t configured on the server. The console can’t see the configuration. To check, run npm run doctor.",
    ],
    destroys: (scope, fieldValues) => fieldValues?.enabled === false && isLastEnabledRoute(scope),
    fields: routeFields,
    hidden: versionField,
    preview: ({ model: { routes }, route }, fieldValues) =>
      fieldChanges(route, {
        ...fieldValues,
        position: Math.min(fieldValues.position, routes.length + (route ? 0 : 1)),
      }),
    sql: "change_model_route",
    change: ({ model: { id }, route }, { version, ...fieldValues }) => ({
      model: id,
      version,
      place: route?.position ?? null,
      route: fieldValues,
    }),
  }),
  "remove-route": defineStep({
    title: "Remove route",
    effects: ({ model, route }) => [
      `Once you confirm, requests to ${model.displayName} no longer go to ${route?.providerId} (${route?.providerModel}). Requests in progress finish.`,
      ...(hasOtherEnabledRoute(model, route)
        ? ["The other routes keep their order."]
        : ["No enabled route will be left, so requests to this model will get a 404 error."]),
      "The provider’s prices are kept, and apply again if you add a route to this provider.",
    ],
    destroys: isLastEnabledRoute,
    fields: versionFields,
    hidden: versionField,
    sql: "change_model_route",
    change: ({ model: { id }, route }, fieldValues) => ({
      ...fieldValues,
      model: id,
      place: route?.position,
      route: null,
    }),
  }),
  grant: defineStep({
    title: "Grant access",
    effects: ({ model }) => [
      `The plan’s workspaces, or the workspace you choose, will be able to use ${model.displayName} if their policies and keys allow it.`,
      ...(model.enabled ? [] : ["The model is disabled. Callers get 404 until you enable it."]),
    ],
    fields: grantFields,
    sql: "set_model_grant",
    change: ({ model: { id } }, fieldValues) => ({ ...fieldValues, model: id, granted: true }),
  }),
  withdraw: defineStep({
    title: "Withdraw access",
    effects: ({ model, grantee: { name } }) => [
      `${name} will lose access to ${model.displayName}, unless another grant allows it. Requests in progress will finish.`,
    ],
    destroys: () => true,
    fields: z.object({}),
    sql: "set_model_grant",
    change: ({ model: { id }, grantee: { plan, workspace } }) => ({ model: id, plan, workspace, granted: false }),
  }),
  price: defineStep({
    title: "Add price",
    effects: ({ model, minInputTokens }) => [
      `Requests to ${model.displayName} ${minInputTokens > 0 ? `with at least ${minInputTokens.toLocaleString("en")} input tokens ` : ""}that start at or after “Valid from” are charged at this price. Earlier requests keep their price.`,
      "The previous price for the same service tier ends at that time. Prices can’t be edited. You can cancel this one up to a minute before it takes effect.",
    ],
    fields: priceFields,
    hidden: ({ model, providerId, minInputTokens }) => {
      const ids = tierPrices(model, { providerId, minInputTokens }).map(({ id }) => id);
      return { latest: Math.max(...ids, 0) || "", seen: ids.length };
    },
    preview: ({ model, providerId, minInputTokens }, fieldValues) =>
      priceChanges(model, { ...fieldValues, providerId, minInputTokens }),
    sql: "add_model_price",
    change: ({ model: { id }, providerId, minInputTokens }, fieldValues) => ({
      ...fieldValues,
      model: id,
      providerId,
      minInputTokens,
    }),
  }),
  "cancel-price": defineStep({
    title: "Cancel price",
    effects: ({ model, price }) => {
      const previous = price && previousPrice(model, price);
      const end = price?.until ? `until ${formatDateTime(price.until)}` : "until another one takes effect";
      return [
        `The price for ${price?.providerId} scheduled for ${price?.from && formatDateTime(price.from)} is deleted (${price?.serviceTier} tier, input ${formatPriceUsd(price?.inputUsd ?? null)}, output ${formatPriceUsd(price?.outputUsd ?? null)}).`,
        previous
          ? `The price in effect since ${previous.from ? formatDateTime(previous.from) : "the model was added"} applies ${end}.`
          : `There is no previous price, so this provider has no price ${end}.`,
        "You can cancel a price up to a minute before it takes effect.",
      ];
    },
    fields: cancelFields,
    hidden: ({ model, price }) => ({
      previous: (price && previousPrice(model, price)?.id) ?? "",
      until: price?.until ?? "",
    }),
    sql: "cancel_model_price",
    change: ({ model: { id }, price }, fieldValues) => ({ ...fieldValues, model: id, price: price?.id }),
  }),
};
export type ModelStep = keyof typeof modelSteps;

/**
 * Returns a model's prices at a provider for the context tier that begins at `minInputTokens`, in all service tiers.
 */
export function tierPrices(
  { prices }: Pick<ConsoleModel, "prices">,
  { providerId, minInputTokens }: { providerId: string; minInputTokens: number },
): ModelPrice[] {
  return prices.filter((price) => price.providerId === providerId && price.minInputTokens === minInputTokens);
}

function previousPrice(model: ConsoleModel, price: ModelPrice): ModelPrice | undefined {
  return tierPrices(model, price).find(
    ({ serviceTier, until }) => serviceTier === price.serviceTier && until !== null && until === price.from,
  );
}

/** Applies a step's change. */
export function changeModel(
  context: AppLoadContext,
  { admin, step, change }: { admin: InfrastructureAdmin; step: ModelStep; change: Record<string, unknown> },
): Promise<ConsoleChange> {
  return applyConsoleChange(context, { admin, name: modelSteps[step].sql, change, refusals });
}

const refusals = {
  not_found: { status: 404, message: "This model or route doesn’t exist." },
  id_taken: { status: 409, message: "Another model already has this ID." },
  taken: { status: 409, message: "Another price takes effect at the same time. Choose another time." },
  invalid: { status: 400, message: "These values aren’t valid together. Check them and try again." },
  default_changed: {
    status: 409,
    message: "Another model became the default of its kind after you opened this page. Nothing was changed.",
  },
  used: { status: 409, message: "The model was enabled before, so it can’t be deleted. Disable it instead." },
  route_taken: { status: 409, message: "The model already has this route." },
  no_grantee: { status: 404, message: "This plan or workspace doesn’t exist." },
  oneself: { status: 403, message: "You can’t change grants of your own personal workspace. Ask another admin." },
  no_route: { status: 400, message: "The model has no route to this provider." },
  past: { status: 400, message: "A price can’t take effect in the past. Enter a later time, or leave it empty." },
  started: {
    status: 409,
    message: "The price is already in effect, or will be within a minute. Add another price instead.",
  },
} as const;
