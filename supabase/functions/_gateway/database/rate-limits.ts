import { z } from "zod";
import type { TokenCounts } from "../../_shared/money.ts";
import { envelopeHeaders } from "../envelopes/envelope-room.ts";
import type { Run } from "./database.ts";

/**
 * A call's limits as reported by the database: the start of the window, then limit and count for the key's requests,
 * the key's tokens, the workspace's requests and the workspace's tokens. `model` has the same four numbers of the model's own
 * limits, if it has any. Counts include this call. A limit that does not exist or was not checked is null.
 */
export const limitReport = z.object({
  minute: z.string().nullable(),
  counts: z.array(z.number().nullable()).length(8),
  model: z.array(z.number().nullable()).length(4).nullish(),
});
export type LimitReport = z.infer<typeof limitReport>;

/** What is left of a limit in its window, and whose limit it is. */
type RemainingLimit = { scope: "key" | "workspace" | "model"; limit: number; remaining: number };
/** The limits reported to a caller, and when the window resets. */
export type RateLimits = { requests?: RemainingLimit; tokens?: RemainingLimit; resetSeconds?: number };

const minuteMs = 60_000;

/** Returns what is left of each limit. @param at when the limits were read, by the database's clock */
export function readRateLimits({ minute, counts, model }: LimitReport, at: string): RateLimits {
  const remainderAt = (scope: RemainingLimit["scope"], place: number): RemainingLimit | undefined => {
    const numbers = scope === "model" ? model : counts;
    const limit = numbers?.[place];
    const counted = numbers?.[place + 1];
    if (limit == null || counted == null) return undefined;
    return { scope, limit, remaining: Math.max(limit - counted, 0) };
  };
  return {
    requests: chooseTighter(chooseTighter(remainderAt("key", 0), remainderAt("workspace", 4)), remainderAt("model", 0)),
    tokens: chooseTighter(chooseTighter(remainderAt("key", 2), remainderAt("workspace", 6)), remainderAt("model", 2)),
    resetSeconds: minute === null ? undefined : Math.ceil((Date.parse(minute) + minuteMs - Date.parse(at)) / 1_000),
  };
}

/** Returns the limit with less remaining, the first one if both have the same. */
function chooseTighter(one: RemainingLimit | undefined, other: RemainingLimit | undefined): RemainingLimit | undefined {
  if (!one || !other) return one ?? other;
  return one.remaining <= other.remaining ? one : other;
}

/** Returns OpenAI's rate limit headers for the limits that exist. */
export function rateLimitHeaders({ requests, tokens, resetSeconds }: RateLimits): Record<string, string> {
  const headers: Record<string, string> = {};
  const add = (of: string, limited: RemainingLimit | undefined) => {
    if (!limited) return;
    headers[`x-ratelimit-limit-${of}`] = String(limited.limit);
    headers[`x-ratelimit-remaining-${of}`] = String(limited.remaining);
    if (resetSeconds !== undefined) headers[`x-ratelimit-reset-${of}`] = `${resetSeconds}s`;
  };
  add("requests", requests);
  add("tokens", tokens);
  return headers;
}

/** The limits and the reserved tokens of a run, as of its admission, and what is left of its envelope. */
type LimitedRun = Pick<Run, "limits" | "created_at" | "reserved_tokens" | "envelope">;

const tokenCountIndexes: readonly number[] = [3, 7];
const modelTokenCountIndex = 3;
/**
 * A token limit is near if fewer than this many calls of the run's size still fit. The margin covers the calls that may
 * end while a settlement batch waits to be written.
 */
const callsNearLimit = 50;

/**
 * Returns the headers of a run's answer: its rate limits, and its envelope if it has one. The rate limits count the
 * reserved tokens, or the used tokens once the usage is known.
 */
export function runLimitHeaders(run: LimitedRun, used?: TokenCounts): Record<string, string> {
  const headers = runRateHeaders(run, used);
  return run.envelope ? { ...headers, ...envelopeHeaders(run) } : headers;
}

function runRateHeaders({ limits, created_at, reserved_tokens }: LimitedRun, used?: TokenCounts) {
  if (!used || reserved_tokens == null) return rateLimitHeaders(readRateLimits(limits, created_at));
  const { input_tokens = 0, output_tokens = 0 } = used;
  const change = input_tokens + output_tokens - reserved_tokens;
  const correct = (indexes: readonly number[]) => (count: number | null, place: number) =>
    count !== null && indexes.includes(place) ? Math.max(count + change, 0) : count;
  const counts = limits.counts.map(correct(tokenCountIndexes));
  const model = limits.model?.map(correct([modelTokenCountIndex]));
  return rateLimitHeaders(readRateLimits({ ...limits, counts, model }, created_at));
}

/**
 * Returns whether fewer than 50 more calls of the run's size fit into the token limits. If so, later calls may need the
 * reserved tokens that settling the run gives back.
 */
export function isNearTokenLimit({ limits, created_at, reserved_tokens }: LimitedRun): boolean {
  const { tokens } = readRateLimits(limits, created_at);
  return tokens !== undefined && reserved_tokens != null && tokens.remaining < callsNearLimit * reserved_tokens;
}
