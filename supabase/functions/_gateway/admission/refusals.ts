import { z } from "zod";
import { GatewayError, isErrorCode } from "../http/errors.ts";
import { type RateLimits, rateLimitHeaders, readRateLimits, toldLimits } from "./rate-limits.ts";

/** A refusal by the database; one for a limit says what is left, and when that was so. */
const refusal = z.looseObject({
  refused: z.string(),
  param: z.string().optional(),
  limits: toldLimits.optional(),
  at: z.string().optional(),
});

/** What to do about a parameter that the model refuses, where the code's own message would leave that open. */
const advice = new Map([
  [
    "unsupported_parameter messages",
    "This model takes no audio. Send text, or choose a model whose prices in GET /v1/models have audio_input_usd_per_million.",
  ],
  ["invalid_request voice", "The model has no such voice. GET /v1/models lists the voices of each."],
]);

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
  const { refused: code, param, limits, at, ...details } = refusal.parse(value);
  if (!isErrorCode(code)) return new GatewayError("internal_error", { cause: new Error(`unknown refusal ${code}`) });
  const rate = limits && at !== undefined ? readRateLimits(limits, at) : {};
  const message = advice.get(`${code} ${param}`);
  return new GatewayError(code, { message, param, details, headers: refusalHeaders(code, rate) });
}

function refusalHeaders(code: string, rate: RateLimits): Record<string, string> {
  if (code === "idempotency_key_used") return { "x-should-retry": "false" };
  return { ...rateLimitHeaders(rate), ...(rate.resetSeconds ? { "retry-after": String(rate.resetSeconds) } : {}) };
}
