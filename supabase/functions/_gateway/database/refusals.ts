import { z } from "zod";
import { GatewayError, isErrorCode, specificMessage } from "../http/errors.ts";

import { limitReport, type RateLimits, rateLimitHeaders, readRateLimits } from "./rate-limits.ts";

/**
 * The fields that determine the size of a call: the input field, and the field with the client's output limit, if any.
 */
export type SizeFields = { input: string; output?: string };

/**
 * A refusal by the database. If a limit was reached, the refusal includes what remains of each limit, and the time at
 * which the database read the limits.
 */
const refusal = z.looseObject({
  refused: z.string(),
  param: z.string().optional(),
  limits: limitReport.optional(),
  at: z.string().optional(),
  token_limit: z
    .object({ scope: z.enum(["key", "workspace"]), limit: z.number(), input: z.number(), counted: z.number() })
    .optional(),
  model_output_limit: z.number().optional(),
  /** Whether a budget or the balance has room once running calls are settled. */
  frees: z.boolean().optional(),
});

/** Returns the database's answer. @throws GatewayError if it is a refusal */
export function requireAnswer(value: unknown, sizeFields?: SizeFields): unknown {
  if (isRefusal(value)) throw refusalError(value, sizeFields);
  return value;
}

/**
 * Returns whether the database's answer is a refusal. Only looks for the member `refused`, because a failed schema
 * parse is slow: it takes longer than all the successful parses of a call.
 */
export function isRefusal(value: unknown): boolean {
  return typeof value === "object" && value !== null && "refused" in value;
}

/**
 * Returns the error to send to the caller for a refusal.
 * @param sizeFields the fields to change if a call is too large for a limit
 */
export function refusalError(value: unknown, sizeFields?: SizeFields): GatewayError {
  const { refused: code, param, limits, at, token_limit, model_output_limit, frees, ...details } = refusal.parse(value);
  if (token_limit) return new GatewayError("invalid_request", tokenLimitFault(token_limit, sizeFields));
  if (model_output_limit !== undefined) {
    return new GatewayError("invalid_request", outputLimitFault(model_output_limit, sizeFields));
  }
  if (!isErrorCode(code)) return new GatewayError("internal_error", { cause: new Error(`unknown refusal ${code}`) });
  const rate = limits && at !== undefined ? readRateLimits(limits, at) : {};
  const message = code === "rate_limit_exceeded" ? rateLimitMessage(rate, sizeFields) : specificMessage(code, param);
  return new GatewayError(code, { message, param, details, isTransient: frees, headers: refusalHeaders(code, rate) });
}

function refusalHeaders(code: string, rate: RateLimits): Record<string, string> {
  // Credits and budgets don't reset with the next window.
  const wait = code === "rate_limit_exceeded" ? rate.resetSeconds : undefined;
  return { ...rateLimitHeaders(rate), ...(wait ? { "retry-after": String(wait) } : {}) };
}

/**
 * Returns a message that names the limit that was reached and says what to do; undefined if the database didn't report
 * the limits.
 */
function rateLimitMessage({ requests, tokens, resetSeconds }: RateLimits, fields?: SizeFields): string | undefined {
  if (resetSeconds === undefined) return undefined;
  const wait = `Try again in ${resetSeconds} ${resetSeconds === 1 ? "second" : "seconds"}`;
  if (requests?.remaining === 0) {
    return `The ${requests.scope}'s limit of ${formatCount(requests.limit)} requests per minute is used up. ${wait}.`;
  }
  if (!tokens) return undefined;
  const lower = fields?.output ? ` or lower ${fields.output}` : "";
  return `The ${tokens.scope}'s limit of ${formatCount(tokens.limit)} tokens per minute has ${formatCount(tokens.remaining)} left, too few for this call. ${wait}${lower}.`;
}

function outputLimitFault(limit: number, fields?: SizeFields): { param?: string; message: string } {
  const param = fields?.output;
  const message = `The model's output limit is ${formatCount(limit)} tokens. Lower ${param ?? "the output limit"}.`;
  return { param, message };
}

type TokenLimit = NonNullable<z.infer<typeof refusal>["token_limit"]>;

/**
 * Returns a message with the limit, the number of tokens counted for the call, and the field to change. That field is
 * the input if the input alone exceeds the limit.
 */
function tokenLimitFault(
  { scope, limit, input, counted }: TokenLimit,
  fields: SizeFields = { input: "input" },
): { param: string; message: string } {
  const param = input > limit ? fields.input : (fields.output ?? fields.input);
  const what = fields.output
    ? `${formatCount(counted)} tokens (input and ${fields.output})`
    : `${formatCount(counted)} tokens`;
  const change = param === fields.output ? `Lower ${param}` : `Shorten ${param}`;
  const message = `This call counts ${what}, more than the ${scope}'s limit of ${formatCount(limit)} tokens per minute. ${change} or raise the limit.`;
  return { param, message };
}

function formatCount(count: number): string {
  return count.toLocaleString("en");
}
