import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { formatDateTime } from "../http/date-text.ts";
import type { Confirmation } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import { formatPriceUsd } from "./labels.ts";
import { cancelFields, grantFields, priceFields, versionFields } from "./model-forms.ts";
import { priceChanges } from "./model-preview.ts";
import type { ConsoleModel, ModelPrice } from "./models.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** The model, and the price or grant that a step changes. */
export interface StepScope {
  model: ConsoleModel;
  price: ModelPrice | null;
  providerId: string;
  minInputTokens: number;
  /** `name` describes the plan's workspaces or names the workspace. It can begin a sentence. */
  grantee: { plan: string | null; workspace: string | null; name: string };
}

interface StepParts<Fields extends z.ZodType> {
  title: string;
  /** Each effect is one sentence. */
  effects: (scope: StepScope) => string[];
  fields: Fields;
  /** Hidden form fields that identify the state that the admin saw. */
  hidden?: (scope: StepScope) => Record<string, string | number>;
  /** Describes what the filled-in form changes. Omitted if `effects` already describes every change. */
  preview?: (scope: StepScope, fieldValues: z.output<Fields>) => string[];
  /** The change deletes something, or stops callers from using the model. */
  destroys?: true;
  /** The database function and its arguments. */
  sql: string;
  change: (scope: StepScope, fieldValues: z.output<Fields>) => Record<string, unknown>;
}

function defineStep<Fields extends z.ZodType>(parts: StepParts<Fields>) {
  const { fields, preview, hidden, destroys, change, ...step } = parts;
  return {
    ...step,
    hiddenOf: (scope: StepScope) => hidden?.(scope) ?? {},
    /** Returns what to type to confirm the step. */
    confirmationOf: ({ model }: StepScope): Confirmation | null =>
      destroys ? { text: model.id, what: "the model’s ID" } : null,
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

export const modelSteps = {
  disable: defineStep({
    title: "Disable model",
    effects: ({ model }) => [
      `Once you confirm, requests to ${model.displayName} get 404. Requests in progress finish.`,
      ...(model.isDefault
        ? [`It is the default ${model.kind} model, so requests that name no model also get 404.`]
        : []),
      "Its routes, prices, grants and runs stay.",
    ],
    destroys: true,
    fields: z.object({}),
    sql: "set_model_enabled",
    change: ({ model: { id } }) => ({ model: id, enabled: false }),
  }),
  delete: defineStep({
    title: "Delete model",
    effects: ({ model }) => [
      `${model.displayName} was never enabled. It is deleted with its routes, prices and grants, and its ID can be used again.`,
    ],
    destroys: true,
    fields: versionFields,
    hidden: versionField,
    sql: "delete_model",
    change: ({ model: { id } }, fieldValues) => ({ ...fieldValues, model: id }),
  }),
  grant: defineStep({
    title: "Grant access",
    effects: ({ model }) => [
      `The workspace will be able to use ${model.displayName} if its policy and keys allow it.`,
      ...(model.enabled ? [] : ["The model is disabled. Callers get 404 until you enable it."]),
    ],
    fields: grantFields,
    sql: "set_model_grant",
    change: ({ model: { id } }, { workspace }) => ({ model: id, plan: null, workspace, granted: true }),
  }),
  withdraw: defineStep({
    title: "Withdraw access",
    effects: ({ model, grantee: { name } }) => [
      `${name} will lose access to ${model.displayName}, unless another grant allows it. Requests in progress will finish.`,
    ],
    destroys: true,
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
  not_found: { status: 404, message: "This model doesn’t exist." },
  taken: { status: 409, message: "Another price takes effect at the same time. Choose another time." },
  invalid: { status: 400, message: "These values aren’t valid together. Check them and try again." },
  used: { status: 409, message: "The model was enabled before, so it can’t be deleted. Disable it instead." },
  no_grantee: { status: 404, message: "This plan or workspace doesn’t exist." },
  oneself: { status: 403, message: "You can’t change grants of your own personal workspace. Ask another admin." },
  no_route: { status: 400, message: "The model has no route to this provider." },
  past: { status: 400, message: "A price can’t take effect in the past. Enter a later time, or leave it empty." },
  started: {
    status: 409,
    message: "The price is already in effect, or will be within a minute. Add another price instead.",
  },
} as const;
