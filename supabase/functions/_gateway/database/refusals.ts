import { z } from "zod";
import { describeRefusal, type SizeFields } from "../../_shared/refusal-message.ts";
import { GatewayError, isErrorCode, linkToPage, specificMessage } from "../http/errors.ts";
import { limitReport, type RateLimits, rateLimitHeaders, readRateLimits } from "./rate-limits.ts";

/**
 * A refusal by the database. If a limit was reached, the refusal includes what remains of each limit, and the time at
 * which the database read the limits.
 */
const refusal = z.looseObject({
  refused: z.string(),
  param: z.string().optional(),
  limits: limitReport.optional(),
  at: z.string().optional(),
  /** Whether a budget or the balance has room once running calls are settled. */
  frees: z.boolean().optional(),
  limit: z.object({ kind: z.string() }).loose().optional(),
  fitting_output_limit: z.number().nullable().optional(),
  /** For gateways of release 0.3.0, which read these instead of `limit`. Until 0.5.0. */
  token_limit: z.unknown().optional(),
  model_output_limit: z.unknown().optional(),
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
  const { refused: code, param, limits, at, frees, token_limit, model_output_limit, ...rest } = refusal.parse(value);
  if (!isErrorCode(code)) return new GatewayError("internal_error", { cause: new Error(`unknown refusal ${code}`) });
  const details = addEnvelopePage(limitToFields(rest, sizeFields));
  const rate = limits && at !== undefined ? readRateLimits(limits, at) : {};
  return new GatewayError(code, {
    message: specificMessage(code, param) ?? describeRefusal({ code, details, sizeFields }),
    param: code === "invalid_request" && rest.limit ? fieldAtFault(details, sizeFields) : param,
    details,
    isTransient: frees,
    headers: refusalHeaders(code, rate, rest.limit),
  });
}

type Details = Pick<z.infer<typeof refusal>, "limit" | "fitting_output_limit"> & Record<string, unknown>;

/** Leaves out an output limit that fits if the API has no such field, and makes it null if other fields don't allow it. */
function limitToFields(details: Details, sizeFields: SizeFields | undefined): Details {
  const { fitting_output_limit: fits, ...others } = details;
  if (fits === undefined || !sizeFields?.output) return others;
  return { ...details, fitting_output_limit: fits !== null && fits >= (sizeFields.minOutput ?? 0) ? fits : null };
}

/** Returns the field to change if a call alone exceeds a limit: the input, unless a lower output limit fits. */
function fieldAtFault({ fitting_output_limit: fits }: Details, sizeFields: SizeFields = { input: "input" }): string {
  return fits == null ? sizeFields.input : (sizeFields.output ?? sizeFields.input);
}

/** Adds the page on which the owner of an envelope raises or ends it, if the web server's origin is known. */
function addEnvelopePage(details: Details): Details {
  const { limit } = details;
  if (limit?.kind !== "envelope") return details;
  const url = linkToPage(`/workspaces/${limit.workspace_id}/ai/envelopes/${limit.id}`);
  return url === undefined ? details : { ...details, limit: { ...limit, url } };
}

/** Returns the headers of a refusal. Only a rate limit and concurrent calls state when to retry. */
function refusalHeaders(code: string, rate: RateLimits, limit: Details["limit"]): Record<string, string> {
  const headers = rateLimitHeaders(rate);
  if (code !== "rate_limit_exceeded") return headers;
  // A concurrent call may end long before the rate limits' window.
  const wait = limit?.kind === "concurrent" ? limit.reset_seconds : rate.resetSeconds;
  return wait ? { ...headers, "retry-after": String(wait) } : headers;
}
