import { z } from "zod";
import type { TokenCounts } from "../../_shared/money.ts";

/**
 * What the database tells of a call's limits: when the minute began, and of the key's requests, its tokens, the
 * workspace's requests and its tokens the limit and what is counted of it by now, this call's part too. Null is what is
 * not limited, and what was not come to.
 */
export const toldLimits = z.object({ minute: z.string().nullable(), counts: z.array(z.number().nullable()).length(8) });
export type ToldLimits = z.infer<typeof toldLimits>;

/** What is left of a limit in its minute, and whose limit it is. */
type Room = { scope: "key" | "workspace"; limit: number; remaining: number };
/** The limits that a caller is told of, and when the minute is over. */
export type RateLimits = { requests?: Room; tokens?: Room; resetSeconds?: number };

const minuteMs = 60_000;

/** @param at when that was told, by the database's clock */
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

/** Whichever has less left speaks for both. */
function tighter(ofKey: Room | undefined, ofWorkspace: Room | undefined): Room | undefined {
  if (!ofKey || !ofWorkspace) return ofKey ?? ofWorkspace;
  return ofKey.remaining <= ofWorkspace.remaining ? ofKey : ofWorkspace;
}

/** OpenAI's rate headers, as far as there are limits. */
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

/** A run as it was admitted. */
type LimitedRun = { limits: ToldLimits; created_at: string; reserved_tokens?: number | null };

const tokenPlaces: readonly number[] = [3, 7];
/** More calls than settle in the time that a batch waits. */
const callsNearLimit = 50;

/**
 * Returns the rate limit headers of a run's answer. They count what the run reserved, or what it used once that is known,
 * as its settlement does.
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

/** Returns whether fewer than 50 more calls of a run's size fit its token limits, so that the next ones need what it returns. */
export function isNearTokenLimit({ limits, created_at, reserved_tokens }: LimitedRun): boolean {
  const { tokens } = readRateLimits(limits, created_at);
  return tokens !== undefined && reserved_tokens != null && tokens.remaining < callsNearLimit * reserved_tokens;
}
