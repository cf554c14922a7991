import type { JsonSchema } from "./schema.ts";

/** Descriptions, with units, for fields and parameters whose schema has no description. The key is the field's name. */
export const fieldWords: Readonly<Record<string, string>> = {
  amountUsd: "US dollars, unrounded.",
  averageLatencyMs: "Milliseconds.",
  billed_credits: "Credits charged for this run. A credit is $0.0001 of provider cost, times the plan's markup.",
  billedCredits: "Credits charged. A credit is $0.0001 of provider cost, times the plan's markup.",
  cachedInputTokens: "Input tokens that the provider read from its cache.",
  cached_input_tokens: "Input tokens that the provider read from its cache.",
  costUsd: "What the provider charges, in US dollars.",
  creditsPerUsd: "Credits per dollar of provider cost: 10,000 times the markup.",
  cursor: "The nextCursor of the previous page.",
  firstByteMs: "Milliseconds until the first byte of the response.",
  from: "The start of the range, inclusive: a day or a time, UTC.",
  entityId: "The label from the request's X-Platform-Entity-Id header.",
  "idempotency-key": "Requests with the same key and body within 24 hours count as one and are charged once.",
  importedUsd: "Provider charges reported by apps, in US dollars.",
  inputTokens: "Tokens of the input, including cached ones.",
  input_tokens: "Tokens of the input, including cached ones.",
  invoicedUsd: "What providers invoiced, in US dollars.",
  latencyMs: "Milliseconds from the start of the request to its end.",
  latency_ms: "Milliseconds.",
  limit: "Maximum number of items in a page.",
  limitUsd: "US dollars per UTC month.",
  memberId: "The member who sent the request or created its key.",
  meteredUsd: "Cost metered by the gateway, in US dollars.",
  monthlyBudgetUsd: "US dollars per UTC month.",
  nextCursor: "Send it as cursor to get the next page. Null on the last page.",
  observedAt: "When the amount was read from the provider. The latest reading counts.",
  occurredAt: "When the cost occurred. For an account's day: midnight UTC.",
  outputTokens: "Tokens of the output, including reasoning.",
  output_tokens: "Tokens of the output, including reasoning.",
  provider_cost_usd: "What the provider charges for this run, in US dollars; absent if the workspace hides it.",
  reasoningTokens: "Output tokens used for reasoning.",
  reasoning_tokens: "Output tokens used for reasoning.",
  remainingUsd: "US dollars left of the limit, minus what running requests reserve. Null without a limit.",
  requestId: "The request's x-request-id.",
  request_id: "The request's x-request-id. Include it when you contact support.",
  requestsPerMinute: "Requests per minute. Null for no separate limit.",
  resetSeconds: "Seconds until the limit resets.",
  reservedUsd: "US dollars reserved by running requests.",
  schema_valid: "Whether the output matches the requested schema. Absent if no schema was requested.",
  spentUsd: "US dollars spent in this UTC month.",
  to: "The end of the range, exclusive: a day or a time, UTC.",
  tokensPerMinute:
    "Input and output tokens per minute. Null for no separate limit. A running request counts its input and its max_completion_tokens, or 500 if that is not set. A finished request counts the tokens it used.",
  unmeteredCredits:
    "Credits that aren't billed: requests by registered apps, and failed requests without a token count.",
  usageSource: "Whether the token counts come from the provider or are estimated.",
  usage_source: "Whether the token counts come from the provider or are estimated.",
  "X-Page-Account":
    "The account whose page sends the request. If another account is active by now, the response is 409.",
  "X-Platform-Entity-Id":
    "A label for the customer or object that the request is about. It doesn't decide who sends or pays for the request.",
  "X-Platform-Operation":
    "A label for the purpose of the request, for grouping in reports. It doesn't decide who sends or pays for the request.",
  "X-Platform-Workspace-Id":
    "The workspace's ID. Required with an app token or a user token. With a workspace key, it must match the key's workspace.",
  "x-request-id": "Your own ID for this request. Generated if absent.",
};

/** Adds the descriptions in `fieldWords` to a schema's fields, at any depth. Keeps existing descriptions. */
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
