import { isObject } from "../../_shared/json.ts";
import type { StatedCounts } from "./stated-counts.ts";

/**
 * Which cache writes of a request live for an hour: all or some of those that it asks for. Absent if there are none, so
 * that the cache's default time applies.
 */
export type HourWrites = "all" | "some";

/** The members of messages, tools and blocks that may contain further blocks. */
const blockMembers = ["content", "source", "output"] as const;

/**
 * Finds which of a request's cache markers ask for an hour
 * (https://platform.claude.com/docs/en/build-with-claude/prompt-caching#1-hour-cache-duration). OpenRouter has the same
 * markers in chats (https://openrouter.ai/docs/features/prompt-caching).
 */
export function readHourWrites(blocks: unknown): HourWrites | undefined {
  const markers: boolean[] = [];
  function visit(value: unknown): void {
    if (Array.isArray(value)) value.forEach(visit);
    if (!isObject(value)) return;
    if (isObject(value.cache_control)) markers.push(value.cache_control.ttl === "1h");
    for (const name of blockMembers) visit(value[name]);
  }
  visit(blocks);
  if (!markers.includes(true)) return undefined;
  return markers.includes(false) ? "some" : "all";
}

/**
 * Attributes cache writes whose lifetime the answer doesn't state. If the request asks only for an hour, they live for
 * an hour. Otherwise they count at the default time, which is uncertain if it asks for both lifetimes. `isAssumed` is
 * whether there are such writes.
 */
export function attributeWrites<Counts extends StatedCounts>(
  stated: Counts,
  hourWrites: HourWrites | undefined,
): { stated: Counts; isAssumed: boolean } {
  const { cacheWrites = 0, cacheWrites5m = 0, cacheWrites1h = 0 } = stated;
  const rest = cacheWrites - cacheWrites5m - cacheWrites1h;
  const isAssumed = rest > 0;
  if (!isAssumed || hourWrites !== "all") return { stated, isAssumed };
  return { stated: { ...stated, cacheWrites1h: cacheWrites1h + rest }, isAssumed };
}
