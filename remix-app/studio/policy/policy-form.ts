import type { z } from "zod";
import { type AiPolicy, policyChange } from "./ai-policy.ts";
import type { ModelChoice, ModelRow } from "./policy-frame.ts";

/** What the form of the policy shows: texts as they were typed, or those of the policy as it stands. */
export interface PolicyFields {
  /** Which models may be used: all that the plan allows, or those alone that are marked as allowed. */
  models: "all" | "listed";
  choices: Record<string, ModelChoice>;
  requestsPerMinute: string;
  tokensPerMinute: string;
  contentRetentionDays: string;
  contentCapture: boolean;
  providerCostVisible: boolean;
}

/** The part of a policy that its form changes. Budgets have forms of their own. */
export type PolicyRules = Pick<
  AiPolicy,
  | "allowedModels"
  | "deniedModels"
  | "requestsPerMinute"
  | "tokensPerMinute"
  | "contentRetentionDays"
  | "contentCapture"
  | "providerCostVisible"
>;

/** The form of a policy as it stands. */
export function policyFields(policy: PolicyRules, rows: readonly ModelRow[]): PolicyFields {
  return {
    models: policy.allowedModels === null ? "all" : "listed",
    choices: Object.fromEntries(rows.map(({ field, choice }) => [field, choice])),
    requestsPerMinute: policy.requestsPerMinute === null ? "" : String(policy.requestsPerMinute),
    tokensPerMinute: policy.tokensPerMinute === null ? "" : String(policy.tokensPerMinute),
    contentRetentionDays: String(policy.contentRetentionDays),
    contentCapture: policy.contentCapture,
    providerCostVisible: policy.providerCostVisible,
  };
}

const rateFault = "Enter a whole number of at least 1, or leave it empty";
const messages: Record<string, string> = {
  requestsPerMinute: rateFault,
  tokensPerMinute: rateFault,
  contentRetentionDays: "Enter a number of days from 1 to 365",
  models: "A hundred models can be allowed, and a hundred denied, at most",
};

export type PolicyFormResult = { fields: PolicyFields } & (
  | { rules: PolicyRules; errors: null }
  | { rules: null; errors: Record<string, string> }
);

/** Reads the form of a policy, which has a page of its models: those of other pages stay as they are. @returns what was typed, and either the rules asked for or one message a field */
export function readPolicyForm(form: FormData, rows: readonly ModelRow[]): PolicyFormResult {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const choices = Object.fromEntries(
    rows.map(({ field, choice }) => [field, form.has(field) ? choiceOf(text(field)) : choice]),
  );
  const fields: PolicyFields = {
    models: text("models") === "listed" ? "listed" : "all",
    choices,
    requestsPerMinute: text("requestsPerMinute"),
    tokensPerMinute: text("tokensPerMinute"),
    contentRetentionDays: text("contentRetentionDays"),
    contentCapture: form.has("contentCapture"),
    providerCostVisible: form.has("providerCostVisible"),
  };
  const marked = (choice: ModelChoice) => rows.filter(({ field }) => choices[field] === choice).map(({ id }) => id);
  const allowed = marked("allow");
  const asked = {
    allowedModels: fields.models === "all" ? null : allowed,
    deniedModels: marked("deny"),
    requestsPerMinute: numberOf(fields.requestsPerMinute),
    tokensPerMinute: numberOf(fields.tokensPerMinute),
    contentRetentionDays: numberOf(fields.contentRetentionDays),
    contentCapture: fields.contentCapture,
    providerCostVisible: fields.providerCostVisible,
  };
  const parsed = policyChange.safeParse(asked);
  const nothing = fields.models === "listed" && allowed.length === 0;
  const errors = {
    // The first field of the page, so the first line above it.
    ...(nothing ? { models: "Allow one model at least, or all of the plan's" } : {}),
    ...(parsed.success ? {} : faultsOf(parsed.error.issues)),
  };
  if (!parsed.success || Object.keys(errors).length > 0) return { fields, rules: null, errors };
  return { fields, rules: { ...asked, contentRetentionDays: Number(asked.contentRetentionDays) }, errors: null };
}

function choiceOf(text: string): ModelChoice {
  return text === "allow" || text === "deny" ? text : "";
}

/** Digits alone: an exponent or a fraction is a slip here. */
function numberOf(text: string): number | null {
  if (text === "") return null;
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

function faultsOf(issues: readonly z.core.$ZodIssue[]): Record<string, string> {
  return Object.fromEntries(
    issues.map(({ path, message }) => {
      const name = String(path[0]).endsWith("Models") ? "models" : String(path[0]);
      return [name, messages[name] ?? message];
    }),
  );
}
