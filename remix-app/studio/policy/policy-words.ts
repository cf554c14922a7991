import { nameRegion } from "#shared/regions.ts";
import type { PolicyRules } from "./policy-form.ts";

/** Explains what a token limit of a workspace or key counts. */
export const tokenLimitHint =
  "Input and output tokens together. While a request is in progress, we count its input plus max_completion_tokens (500 if not set). Once it finishes, we count the tokens it used.";

/** Describes a policy, one line per setting, for people who cannot change it and for comparing two versions. */
export function policyWords(rules: PolicyRules): { label: string; text: string }[] {
  const { allowedModels, deniedModels, allowedRegions, requestsPerMinute, tokensPerMinute, modelLimits } = rules;
  return [
    { label: "Allowed models", text: allowedModels === null ? "All models in your plan" : formatModels(allowedModels) },
    { label: "Denied models", text: formatModels(deniedModels) },
    {
      label: "Allowed regions",
      text: allowedRegions === null ? "Any region" : allowedRegions.map(nameRegion).join(", "),
    },
    { label: "Requests per minute", text: formatRateLimit(requestsPerMinute) },
    { label: "Tokens per minute", text: formatRateLimit(tokensPerMinute) },
    { label: "Limits by model", text: modelLimits.map(formatModelLimit).join("; ") || "None" },
    { label: "Prompts and answers", text: rules.contentCapture ? "Kept" : "Not kept" },
    { label: "Days kept", text: String(rules.contentRetentionDays) },
    {
      label: "Provider cost",
      text: rules.providerCostVisible ? "Shown to members" : "Hidden from members, except imported costs and invoices",
    },
  ];
}

function formatModels(models: readonly string[]): string {
  return models.length === 0 ? "None" : models.join(", ");
}

function formatRateLimit(limit: number | null): string {
  return limit === null ? "Plan limit" : limit.toLocaleString("en");
}

function formatModelLimit({ model, requestsPerMinute, tokensPerMinute }: PolicyRules["modelLimits"][number]): string {
  const limits = [
    requestsPerMinute === null ? "" : `${requestsPerMinute.toLocaleString("en")} requests`,
    tokensPerMinute === null ? "" : `${tokensPerMinute.toLocaleString("en")} tokens`,
  ];
  return `${model}: ${limits.filter(Boolean).join(", ")} per minute`;
}

/** Describes the settings that differ between two policies. */
export function policyDifferences(
  theirs: PolicyRules,
  yours: PolicyRules,
): { label: string; theirs: string; yours: string }[] {
  const yourTexts = policyWords(yours);
  return policyWords(theirs).flatMap(({ label, text }, index) => {
    const other = yourTexts[index]?.text ?? "";
    return text === other ? [] : [{ label, theirs: text, yours: other }];
  });
}
