import type { z } from "zod";
import { choicesOf, type ModelChoices, readModelChoices } from "../model-choice/model-choices.ts";
import { type AiPolicy, policyChange } from "./ai-policy.ts";
import { type ModelLimitRow, modelLimitFields, readModelLimitRows } from "./model-limit-fields.tsx";
import { type RegionChoice, readRegionChoice } from "./region-fields.tsx";

/** The values of the policy's form: as typed, or from the current policy. */
export interface PolicyFields {
  choices: ModelChoices;
  regions: RegionChoice;
  requestsPerMinute: string;
  tokensPerMinute: string;
  modelLimits: readonly ModelLimitRow[];
  contentRetentionDays: string;
  contentCapture: boolean;
  providerCostVisible: boolean;
}

/** The part of a policy that its form changes. Budgets have their own forms. */
export type PolicyRules = Pick<
  AiPolicy,
  | "allowedModels"
  | "deniedModels"
  | "allowedRegions"
  | "requestsPerMinute"
  | "tokensPerMinute"
  | "modelLimits"
  | "contentRetentionDays"
  | "contentCapture"
  | "providerCostVisible"
>;

/** Returns the form's values for the current policy. */
export function policyFields(policy: PolicyRules): PolicyFields {
  return {
    choices: choicesOf({ allowed: policy.allowedModels, denied: policy.deniedModels }),
    regions: { mode: policy.allowedRegions === null ? "all" : "selected", selected: policy.allowedRegions ?? [] },
    requestsPerMinute: textOf(policy.requestsPerMinute),
    tokensPerMinute: textOf(policy.tokensPerMinute),
    modelLimits: policy.modelLimits.map(({ model, requestsPerMinute, tokensPerMinute }) => ({
      model,
      requests: textOf(requestsPerMinute),
      tokens: textOf(tokensPerMinute),
    })),
    contentRetentionDays: String(policy.contentRetentionDays),
    contentCapture: policy.contentCapture,
    providerCostVisible: policy.providerCostVisible,
  };
}

const textOf = (limit: number | null) => (limit === null ? "" : String(limit));

const limitMessages = {
  model: "Enter the ID of a model that has no other row",
  requests: "Enter at least one limit, as a whole number of at least 1",
  tokens: "Enter a whole number of at least 1, or leave it empty",
} as const;
const messages: Record<string, string> = {
  allowedRegions: "Select at least one region, or choose any region",
  requestsPerMinute: "Enter requests per minute as a whole number of at least 1, or leave it empty",
  tokensPerMinute: "Enter tokens per minute as a whole number of at least 1, or leave it empty",
  modelLimits: "Limit at most 100 models",
  contentRetentionDays: "Enter a number of days from 1 to 365",
  models: "Select at most 100 models and deny at most 100",
};

/** The ids of fields that differ from the policy's names. */
const fieldIds: Record<string, string> = { allowedRegions: "regions" };

type PolicyChange = z.infer<typeof policyChange>;

export type PolicyFormResult = { fields: PolicyFields } & (
  | { rules: PolicyRules & Pick<Required<PolicyChange>, "allowedRegions">; errors: null }
  | { rules: null; errors: Record<string, string> }
);

/**
 * Reads the policy's form.
 * @returns the typed values, with either the `rules` to save or one message per field in `errors`. If the form was sent
 * only to show other models, `rules` is null and `errors` is empty.
 */
export function readPolicyForm(form: FormData): PolicyFormResult {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const { choices, shows } = readModelChoices(form);
  const fields: PolicyFields = {
    choices,
    regions: readRegionChoice(form),
    requestsPerMinute: text("requestsPerMinute"),
    tokensPerMinute: text("tokensPerMinute"),
    modelLimits: readModelLimitRows(form),
    contentRetentionDays: text("contentRetentionDays"),
    contentCapture: form.has("contentCapture"),
    providerCostVisible: form.has("providerCostVisible"),
  };
  if (shows || text("intent") === "rows") return { fields, rules: null, errors: {} };
  const submitted = {
    allowedModels: choices.mode === "all" ? null : [...choices.allow],
    deniedModels: [...choices.deny],
    allowedRegions: fields.regions.mode === "all" ? null : [...fields.regions.selected],
    requestsPerMinute: numberOf(fields.requestsPerMinute),
    tokensPerMinute: numberOf(fields.tokensPerMinute),
    modelLimits: fields.modelLimits.map(({ model, requests, tokens }) => ({
      model,
      requestsPerMinute: numberOf(requests),
      tokensPerMinute: numberOf(tokens),
    })),
    contentRetentionDays: numberOf(fields.contentRetentionDays),
    contentCapture: fields.contentCapture,
    providerCostVisible: fields.providerCostVisible,
  };
  const parsed = policyChange.safeParse(submitted);
  const selectsNone = submitted.allowedModels?.length === 0;
  const errors = {
    // The models are the first field of the page, so their error comes first in the summary.
    ...(selectsNone ? { models: "Select at least one model, or choose all models in your plan" } : {}),
    ...(parsed.success ? {} : faultsOf(parsed.error.issues)),
  };
  if (!parsed.success || Object.keys(errors).length > 0) return { fields, rules: null, errors };
  return {
    fields,
    rules: {
      ...submitted,
      allowedRegions: parsed.data.allowedRegions ?? null,
      contentRetentionDays: Number(submitted.contentRetentionDays),
    },
    errors: null,
  };
}

/** Accepts only digits, because an exponent or a fraction is a typing error here. */
function numberOf(text: string): number | null {
  if (text === "") return null;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

function faultsOf(issues: readonly z.core.$ZodIssue[]): Record<string, string> {
  return Object.fromEntries(
    issues.map(({ path, message }) => {
      const [field, place, member] = path;
      if (field === "modelLimits" && typeof place === "number") return faultOfRow(place, member);
      const name = String(field).endsWith("Models") ? "models" : String(field);
      return [fieldIds[name] ?? name, messages[name] ?? message];
    }),
  );
}

function faultOfRow(place: number, member: unknown): [string, string] {
  const fields = modelLimitFields(place);
  if (member === "model") return [fields.model, limitMessages.model];
  return member === "tokensPerMinute"
    ? [fields.tokens, limitMessages.tokens]
    : [fields.requests, limitMessages.requests];
}
