import { z } from "zod";
import type { TokenCounts } from "../../_shared/money.ts";

/**
 * A call's limits as reported by the database: the start of the window, then limit and count for the key's requests,
 * the key's tokens, the workspace's requests and the workspace's tokens. Counts include this call. A limit that does
 * not exist or was not checked is null.
 */
export const toldLimits = z.object({ minute: z.string().nullable(), counts: z.array(z.number().nullable()).length(8) });
export type ToldLimits = z.infer<typeof toldLimits>;

/** What is left of a limit in its window, and whether the limit is the key's or the workspace's. */
type Room = { scope: "key" | "workspace"; limit: number; remaining: number };
/** The limits reported to a caller, and when the window resets. */
export type RateLimits = { requests?: Room; tokens?: Room; resetSeconds?: number };

const minuteMs = 60_000;

/** Returns what is left of each limit. @param at when the limits were read, by the database's clock */
export function readRateLimits({ minute, counts }: ToldLimits, at: string): RateLimits {
  const roomAt = (scope: Room["scope"], place: number): Room | undefined => {
    const limit = counts[place];
    const counted = counts[place + 1];
    if (limit == null || counted == null) return undefined;
    return { scope, limit, remaining: Math.max(limit - counted, 0) };
  };
  return {
    requests: tighter(roomAt("key", 0), roomAt("workspace", 4)),
    tokens: tighter(roomAt("key", 2), roomAt("workspace", 6)),
    resetSeconds: minute === null ? undefined : Math.ceil((Date.parse(minute) + minuteMs - Date.parse(at)) / 1_000),
  };
}

/** Returns the limit with less remaining. */
function tighter(ofKey: Room | undefined, ofWorkspace: Room | undefined): Room | undefined {
  if (!ofKey || !ofWorkspace) return ofKey ?? ofWorkspace;
  return ofKey.remaining <= ofWorkspace.remaining ? ofKey : ofWorkspace;
}

/** Returns OpenAI's rate limit headers for the limits that exist. */
export function rateLimitHeaders({ requests, tokens, resetSeconds }: RateLimits): Record<string, string> {
  const headers: Record<string, string> = {};
  const tell = (of: string, room: Room | undefined) => {
    if (!room) return;
    headers[`x-ratelimit-limit-${of}`] = String(room.limit);
    headers[`x-ratelimit-remaining-${of}`] = String(room.remaining);
    if (resetSeconds !== undefined) headers[`x-ratelimit-reset-${of}`] = `${resetSeconds}s`;
  };
  tell("requests", requests);
  tell("tokens", tokens);
  return headers;
}

/** The limits and the reserved tokens of a run, as of its admission. */
type LimitedRun = { limits: ToldLimits; created_at: string; reserved_tokens?: number | null };

const tokenPlaces: readonly number[] = [3, 7];
/**
 * A token limit is near if fewer than this many calls of the run's size still fit. The margin covers the calls that may
 * end while a settlement batch waits to be written.
 */
const callsNearLimit = 50;

/**
 * Returns the rate limit headers of a run's answer. The headers count the reserved tokens, or the used tokens once the
 * usage is known.
 */
export function runLimitHeaders(
  { limits, created_at, reserved_tokens }: LimitedRun,
  used?: TokenCounts,
): Record<string, string> {
  if (!used || reserved_tokens == null) return rateLimitHeaders(readRateLimits(limits, created_at));
  const { input_tokens = 0, output_tokens = 0 } = used;
  const change = input_tokens + output_tokens - reserved_tokens;
  const counts = limits.counts.map((count, place) =>
    count !== null && tokenPlaces.includes(place) ? Math.max(count + change, 0) : count,
  );
  return rateLimitHeaders(readRateLimits({ ...limits, counts }, created_at));
}

/**
 * Returns whether fewer than 50 more calls of the run's size fit into the token limits. If so, later calls may need the
 * reserved tokens that settling the run gives back.
 */
export function isNearTokenLimit({ limits, created_at, reserved_tokens }: LimitedRun): boolean {
  const { tokens } = readRateLimits(limits, created_at);
  return tokens !== undefined && reserved_tokens != null && tokens.remaining < callsNearLimit * reserved_tokens;
}
