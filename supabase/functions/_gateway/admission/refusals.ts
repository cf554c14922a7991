import { z } from "zod";
import { GatewayError, isErrorCode } from "../http/errors.ts";

/** What is left of the limits of a minute, as the database tells it. */
export const rateLimits = z.object({
  limit_requests: z.number().optional(),
  remaining_requests: z.number().optional(),
  limit_tokens: z.number().optional(),
  remaining_tokens: z.number().optional(),
  reset_seconds: z.number().optional(),
});
const refusal = z.looseObject({ refused: z.string(), param: z.string().optional(), limits: rateLimits.optional() });

/** What to do about a parameter that the model refuses, where the code's own message would leave that open. */
const advice = new Map([
  [
    "unsupported_parameter messages",
    "This model takes no audio. Send text, or choose a model whose prices in GET /v1/models have audio_input_usd_per_million.",
  ],
  ["invalid_request voice", "The model has no such voice. GET /v1/models lists the voices of each."],
]);

type RateLimits = z.infer<typeof rateLimits>;

/** @throws GatewayError where the database answered with a refusal */
export function admitted(value: unknown): unknown {
  if (isRefusal(value)) throw refusalError(value);
  return value;
}

/** A look at one member, since a schema that fails takes longer than all the schemas of a call that fit. */
export function isRefusal(value: unknown): boolean {
  return typeof value === "object" && value !== null && "refused" in value;
}

/** What the caller is told of a refusal. */
export function refusalError(value: unknown): GatewayError {
  const { refused: code, param, limits: rate, ...details } = refusal.parse(value);
  if (!isErrorCode(code)) return new GatewayError("internal_error", { cause: new Error(`unknown refusal ${code}`) });
  const message = advice.get(`${code} ${param}`);
  return new GatewayError(code, { message, param, details, headers: refusalHeaders(code, rate) });
}

function refusalHeaders(code: string, rate: RateLimits | undefined): Record<string, string> {
  if (code === "idempotency_key_used") return { "x-should-retry": "false" };
  return { ...rateLimitHeaders(rate), ...(rate?.reset_seconds ? { "retry-after": String(rate.reset_seconds) } : {}) };
}

/** OpenAI's rate headers, as far as there are limits. */
export function rateLimitHeaders(rate: RateLimits = {}): Record<string, string> {
  const headers: Record<string, string> = {};
  const tell = (of: string, limit: number | undefined, remaining: number | undefined) => {
    if (limit !== undefined) headers[`x-ratelimit-limit-${of}`] = String(limit);
    if (remaining !== undefined) headers[`x-ratelimit-remaining-${of}`] = String(remaining);
    if (limit !== undefined && rate.reset_seconds !== undefined) {
      headers[`x-ratelimit-reset-${of}`] = `${rate.reset_seconds}s`;
    }
  };
  tell("requests", rate.limit_requests, rate.remaining_requests);
  tell("tokens", rate.limit_tokens, rate.remaining_tokens);
  return headers;
}
