import type { Schema } from "./documents.ts";

type Resolve = (ref: string) => Schema;

/** Maximum depth; deeper shapes are left out. */
const maxDepth = 8;
const id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const examplesByFormat: Record<string, string> = {
  uuid: id,
  date: "2026-11-28",
  "date-time": "2026-11-28T09:30:00.000Z",
  email: "ada@example.com",
  uri: "https://app.example.com/",
};
/** Example values by member name, for schemas that allow any text, number or object. */
const examplesByName: Record<string, unknown> = {
  aal: "aal1",
  accountId: "default",
  address: "203.0.113.7",
  allowedAddresses: "203.0.113.0/24",
  allowedModels: "gpt-4.1-mini",
  app: "Field notes",
  appName: "Field notes",
  averageLatencyMs: 840,
  avatarUrl: "https://app.example.com/ada.png",
  balance: 4200,
  choices: { index: 0, message: { role: "assistant", content: "Hello! How can I help?" }, finish_reason: "stop" },
  context_window: 1_047_576,
  contentRetentionDays: 30,
  createdBy: id,
  currency: "USD",
  data: { object: "embedding", index: 0, embedding: [0.0023, -0.0093] },
  deniedModels: "gpt-4.1",
  description: "Monthly credits",
  device: "Chrome on macOS",
  displayName: "Ada Lovelace",
  email: "ada@example.com",
  endpoints: "/v1/chat/completions",
  environment: "production",
  errorCode: "provider_error",
  failed: 0,
  feature: "chat",
  finishReason: "stop",
  httpStatus: 200,
  ignored: "logit_bias",
  inputTokens: 128,
  input_tokens: 128,
  ip: "203.0.113.7",
  issuedOn: "2026-12-01",
  keyName: "Production",
  kind: "sign_in",
  label: "checkout",
  lastRoute: "/workspaces",
  latencyMs: 840,
  latency_ms: 840,
  memberName: "Ada Lovelace",
  method: "password",
  model: "gpt-4.1-mini",
  month: "2026-11-01",
  name: "Production",
  origin: "https://app.example.com",
  output: {
    type: "message",
    role: "assistant",
    content: [{ type: "output_text", text: "Hello! How can I help?" }],
  },
  output_limit: 32_768,
  output_tokens: 256,
  outputTokens: 256,
  owned_by: "openai",
  pairCode: "482913",
  periodEnd: "2026-11-30",
  periodStart: "2026-11-01",
  place: "Porto, Portugal",
  planId: "free",
  prefix: "ttr_ai_3f25",
  provider: "openai",
  redirectTo: "/",
  reference: "INV-2026-11",
  requests: 12,
  requestsPerMinute: 60,
  role: "admin",
  scopes: "ai:use",
  secret: "…",
  service: "responses",
  servedTier: "default",
  service_tier: "default",
  spentPercent: "42.5",
  state: "…",
  status: "completed",
  token: "…",
  accessToken: "…",
  refreshToken: "…",
  tokensPerMinute: 100_000,
  total_tokens: 384,
  totalTokens: 384,
  trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
  usage: { prompt_tokens: 128, completion_tokens: 256, total_tokens: 384 },
  /** Used as `usage` in objects that also have `output`, such as an OpenAI response. */
  outputUsage: { input_tokens: 128, output_tokens: 256, total_tokens: 384 },
  userAgent: "Mozilla/5.0",
  userCode: "WDJB-MJHT",
};

/**
 * Returns an example of what a schema describes, with every named member and one item in each list.
 * @returns undefined if the schema describes no JSON
 */
export function createSample(schema: Schema, resolve: Resolve): unknown {
  return Object.keys(schema).length === 0 ? undefined : exampleOf(schema, { resolve, depth: 0, name: "" });
}

function exampleOf(schemaOrRef: Schema, options: { resolve: Resolve; depth: number; name: string }): unknown {
  const { resolve, depth, name } = options;
  const schema = schemaOrRef.$ref ? resolve(schemaOrRef.$ref) : schemaOrRef;
  const next = (child: Schema, childName = name) => exampleOf(child, { resolve, depth: depth + 1, name: childName });
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [alternative] = (schema.anyOf ?? schema.oneOf ?? []).filter(({ type }) => type !== "null");
  if (alternative) return next(alternative);
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map((part) => next(part)));
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  if (schema.properties || type === "object") {
    const members = Object.entries(schema.properties ?? {}).filter(
      ([key]) => depth < maxDepth || schema.required?.includes(key),
    );
    const hint = examplesByName[name];
    if (members.length === 0 && typeof hint === "object") return hint;
    const hintOf = (key: string) => (key === "usage" && schema.properties?.output ? "outputUsage" : key);
    return Object.fromEntries(members.map(([key, child]) => [key, next(child, hintOf(key))]));
  }
  if (schema.prefixItems) return schema.prefixItems.map((item) => next(item));
  if (type === "array") {
    return schema.items ? Array.from({ length: schema.minItems ?? 1 }, () => next(schema.items ?? {})) : [];
  }
  if (type === "boolean") return true;
  if (type === "null") return null;
  if (type === "integer" || type === "number") return createExampleNumber(schema, name);
  if (type === "string") return createExampleText(schema, name);
  return Object.hasOwn(examplesByName, name) ? examplesByName[name] : {};
}

function createExampleNumber({ type, minimum = 0, maximum = Number.MAX_SAFE_INTEGER }: Schema, name: string): number {
  const hint = examplesByName[name];
  const amount = /usd/i.test(name) ? 0.0123 : 1;
  const value = typeof hint === "number" ? hint : type === "integer" ? Math.ceil(amount) : amount;
  return Math.min(Math.max(value, minimum), maximum);
}

function createExampleText(
  { format, pattern, minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Schema,
  name: string,
): string {
  const fits = (text: string) =>
    text.length >= minLength && text.length <= maxLength && (!pattern || new RegExp(pattern, "u").test(text));
  const hint = examplesByName[name];
  const candidates = [
    ...(typeof hint === "string" && !format ? [hint] : []),
    ...(format && examplesByFormat[format] ? [examplesByFormat[format]] : []),
    ...(name.endsWith("Usd") ? ["0.012345"] : []),
    ...(/cursor$/i.test(name) ? ["eyJpZCI6IjNmMjUwNGUwIn0"] : []),
    ...(name === "id" || name.endsWith("Id") ? [id] : []),
    ...(/(At|from|to|day)$/.test(name) ? ["2026-11-28T09:30:00.000Z", "2026-11-28"] : []),
    "example",
    "1",
    "1.25",
    "2026-11",
    "2026-11-28",
    "2026-11-28T09:30:00.000Z",
    id,
    "/",
    "example".repeat(10),
  ];
  return candidates.find(fits) ?? "…";
}
