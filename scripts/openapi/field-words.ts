import type { JsonSchema } from "./schema.ts";

/** What a field or parameter is, and in which unit, wherever it has this name and its schema does not say it. */
export const fieldWords: Readonly<Record<string, string>> = {
  amountUsd: "US dollars, with every digit.",
  averageLatencyMs: "Milliseconds.",
  billed_credits: "Credits charged for this run. A credit is $0.0001 of provider cost, times the plan's markup.",
  billedCredits: "Credits charged. A credit is $0.0001 of provider cost, times the plan's markup.",
  cachedInputTokens: "Those of the input tokens that the provider had cached.",
  cached_input_tokens: "Those of the input tokens that the provider had cached.",
  costUsd: "What the provider charges, in US dollars.",
  creditsPerUsd: "Credits per dollar of provider cost: 10,000 times the markup.",
  cursor: "The `nextCursor` of the page before.",
  firstByteMs: "Milliseconds until the first byte of the answer.",
  from: "The begin of the range, which it includes: a day or a time, UTC.",
  entityId: "The label of the call's `X-Platform-Entity-Id`.",
  "idempotency-key": "1–255 characters. The same key and body within 24 hours are one call, charged once.",
  importedUsd: "What apps reported that providers charged, in US dollars.",
  inputTokens: "Tokens of what was asked, cached ones included.",
  input_tokens: "Tokens of what was asked, cached ones included.",
  invoicedUsd: "What providers invoiced, in US dollars.",
  latencyMs: "Milliseconds from the call's begin to its end.",
  latency_ms: "Milliseconds.",
  limit: "How many a page holds at most.",
  limitUsd: "US dollars in a UTC month.",
  memberId: "The member who made the call or created its key.",
  meteredUsd: "What the gateway counted, in US dollars.",
  monthlyBudgetUsd: "US dollars in a UTC month.",
  nextCursor: "What to send as `cursor` for the next page; null on the last one.",
  observedAt: "When the amount was read from the provider: the latest reading counts.",
  occurredAt: "When it was spent; of an account day midnight, UTC.",
  outputTokens: "Tokens of the answer, reasoning included.",
  output_tokens: "Tokens of the answer, reasoning included.",
  provider_cost_usd: "What the provider charges for this run, in US dollars; absent where the workspace hides it.",
  reasoningTokens: "Those of the output tokens that went into reasoning.",
  reasoning_tokens: "Those of the output tokens that went into reasoning.",
  remainingUsd: "US dollars that are left of the limit, less what calls under way hold.",
  requestId: "The call's `x-request-id`.",
  request_id: "The call's `x-request-id`. Quote it to support.",
  requestsPerMinute: "Calls a minute; null is no limit of its own.",
  resetSeconds: "Seconds until the limit starts anew.",
  reservedUsd: "US dollars that calls under way hold.",
  schema_valid: "Whether the answer keeps to the schema asked for; absent where there was nothing to check.",
  spentUsd: "US dollars spent in this UTC month.",
  to: "The end of the range, which it excludes: a day or a time, UTC.",
  tokensPerMinute:
    "Input and output tokens a minute; null is no limit of its own. A running call counts its input and its max_completion_tokens, or 500 if it states none; a finished call counts the tokens that it used.",
  unmeteredCredits: "Credits that nobody is billed for: of registered apps, and of calls that ended without a count.",
  usageSource: "Whether the counts are the provider's or a guess.",
  usage_source: "Whether the counts are the provider's or a guess.",
  "X-Page-Account": "Whose page asks. Where another account is signed in by now, the answer is 409.",
  "X-Platform-Entity-Id": "A label: whom or what the call is about. It never decides who calls or pays.",
  "X-Platform-Operation": "A label: what the call is for. Reports group by it; it never decides who calls or pays.",
  "X-Platform-Workspace-Id": "The workspace. Needed with an app's token or a person's; a key's own must match.",
  "x-request-id": "A name of your own for this call, 1–128 characters; made where it is absent.",
};

/** Gives the fields below a schema their words, where they have none of their own. */
export function explain(schema: JsonSchema): JsonSchema {
  return walk(schema) as JsonSchema;
}

function walk(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(walk);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inside]) => [key, key === "properties" ? explained(inside) : walk(inside)]),
  );
}

function explained(properties: Record<string, JsonSchema>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => {
      const words = Object.hasOwn(fieldWords, name) && !("description" in schema) && !("$ref" in schema);
      return [name, { ...(words ? { description: fieldWords[name] } : {}), ...(walk(schema) as JsonSchema) }];
    }),
  );
}
