import type { PolicyRules } from "./policy-form.ts";

/** What a token limit counts, of a workspace or a key. */
export const tokenLimitHint =
  "Counts input and output tokens. A running call counts its input and its max_completion_tokens, or 500 if it states none; a finished call counts the tokens that it used.";

/** A policy in words, a line each: what people without the right to change it read, and what two of them differ in. */
export function policyWords(rules: PolicyRules): { label: string; text: string }[] {
  const { allowedModels, deniedModels, requestsPerMinute, tokensPerMinute } = rules;
  return [
    { label: "Allowed models", text: allowedModels === null ? "All that the plan allows" : listed(allowedModels) },
    { label: "Denied models", text: listed(deniedModels) },
    { label: "Requests a minute", text: rate(requestsPerMinute) },
    { label: "Tokens a minute", text: rate(tokensPerMinute) },
    { label: "What is said in calls", text: rules.contentCapture ? "Kept" : "Not kept" },
    { label: "Days it is kept", text: String(rules.contentRetentionDays) },
    {
      label: "What providers charge for calls",
      text: rules.providerCostVisible ? "Shown to members" : "Hidden from members, but for imported costs and invoices",
    },
  ];
}

function listed(models: readonly string[]): string {
  return models.length === 0 ? "None" : models.join(", ");
}

function rate(limit: number | null): string {
  return limit === null ? "As the plan allows" : limit.toLocaleString("en");
}

/** Where two policies differ: what each says. */
export function policyDifferences(
  theirs: PolicyRules,
  yours: PolicyRules,
): { label: string; theirs: string; yours: string }[] {
  const wanted = policyWords(yours);
  return policyWords(theirs).flatMap(({ label, text }, index) => {
    const other = wanted[index]?.text ?? "";
    return text === other ? [] : [{ label, theirs: text, yours: other }];
  });
}
