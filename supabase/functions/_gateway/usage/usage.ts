import type { ChargedCall } from "../../_shared/call-price.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import type { HourWrites } from "./cache-lifetimes.ts";

/** A reason for an operator to look at the usage of a call. */
export type UsageMark =
  /** The provider stated more tokens than the model's context window, so a full window is charged. */
  | "above_context_window"
  /**
   * The provider stated more tokens than any model can process in one call, and the catalogue has no context window for
   * the model. The call is charged for the largest plausible number of tokens. Also set if the call's fees or cost are
   * implausibly high.
   */
  | "implausible"
  /** The answer is longer than the call's output limit. */
  | "above_output_limit"
  /**
   * The request caches for both lifetimes, and the provider stated cache writes without a lifetime. The price of the
   * default time is charged for them.
   */
  | "unattributed_cache_writes"
  /** The usage is estimated, and the input has a document whose pages could not be counted. */
  | "unmeasured_document"
  /** The answer was served at a tier without a price, so the default prices are charged. */
  | "unpriced_tier";

/**
 * Details that a provider states about a call in addition to token counts, and marks that ask an operator to check the usage.
 */
export type UsageFacts = {
  /** The cost that the provider states for the call, as exact decimal text. */
  statedCostUsd?: string;
  /** The `service_tier` that the answer states. */
  servedTier?: string;
  marks?: readonly UsageMark[];
};

/** Token counts that are complete enough to charge by. */
export type CallCounts = TokenCounts & { input_tokens: number; output_tokens: number };

/** A call's usage, as its provider states it. */
export type StatedUsage = UsageFacts & {
  counts: CallCounts;
  /** Whether cache writes have no stated lifetime, so that the request's or the default one applies. */
  assumesLifetimes?: boolean;
};

/** What one provider call used. `basis` is the source: the final usage, an intermediate count, or an estimate. */
export type CallUse = ChargedCall & UsageFacts & { basis: "final" | "partial" | "guess" };

/** Returns whether a call's usage or stated cost is above zero. */
export function isCharged({ usage, statedCostUsd = "0" }: CallUse): boolean {
  return Number(statedCostUsd) > 0 || Object.values(usage).some((count) => count > 0);
}

/** The maximum usage of a call, and what the request says about its cache writes. */
export type UsageLimits = {
  /** The model's context window in tokens. Absent if the catalogue states none. */
  contextWindow?: number;
  /** The output limit of each choice in tokens, or 0 if the answer has no output. */
  outputLimit: number;
  choices: number;
  /** The request's cache writes that live for an hour, for answers that state no lifetimes. */
  hourWrites?: HourWrites;
  /** Whether a missing output count means zero, as in answers that are not passed on. */
  outputIsOptional?: boolean;
};

const writeCounts = ["cache_write_tokens", "cache_write_1h_tokens"] as const;

/** Combines two usage statements for the same call. The later one applies, except where it is zero. */
export function latestUsage(earlier: StatedUsage | undefined, later: StatedUsage): StatedUsage {
  if (!earlier) return later;
  if (later.assumesLifetimes && writesIn(later) === writesIn(earlier))
    return latestUsage(earlier, withoutWrites(later));
  const counts = { ...earlier.counts };
  // A later statement may attribute the same cache writes to another lifetime.
  if (writesIn(later) > 0) for (const name of writeCounts) delete counts[name];
  for (const [name, count] of Object.entries(later.counts)) if (count > 0) counts[name as keyof TokenCounts] = count;
  const { statedCostUsd = earlier.statedCostUsd, servedTier = earlier.servedTier } = later;
  const statedCost = Number(statedCostUsd) > 0 ? statedCostUsd : (earlier.statedCostUsd ?? statedCostUsd);
  return addUsageFacts(counts, { statedCostUsd: statedCost, servedTier, marks: marksOf(earlier, later) });
}

function writesIn({ counts }: StatedUsage): number {
  return writeCounts.reduce((sum, name) => sum + (counts[name] ?? 0), 0);
}

function withoutWrites({ counts, marks, ...facts }: StatedUsage): StatedUsage {
  const { cache_write_tokens, cache_write_1h_tokens, ...rest } = counts;
  return addUsageFacts(rest, { ...facts, marks: marks?.filter((mark) => mark !== "unattributed_cache_writes") });
}

/** Returns a call's usage as its provider stated it, with the route that answered. */
export function createCallUse<Basis extends string>(
  { counts, ...facts }: StatedUsage,
  { route, basis }: { route: number; basis: Basis },
): UsageFacts & { route: number; usage: CallCounts; basis: Basis } {
  return { ...facts, route, usage: counts, basis };
}

/** Returns the usage of a call that its provider doesn't bill, even if it states tokens. */
export function unbilledUse(route: number) {
  return { route, usage: { input_tokens: 0, output_tokens: 0 }, basis: "final" } as const;
}

export function addMarks<Facts extends UsageFacts>(facts: Facts, ...marks: readonly UsageMark[]): Facts {
  return marks.length > 0 ? { ...facts, marks: marksOf(facts, { marks }) } : facts;
}

/** Adds the known details to token counts. */
export function addUsageFacts(counts: CallCounts, { statedCostUsd, servedTier, marks = [] }: UsageFacts): StatedUsage {
  return {
    counts,
    ...(statedCostUsd === undefined ? {} : { statedCostUsd }),
    ...(servedTier === undefined ? {} : { servedTier }),
    ...(marks.length > 0 ? { marks } : {}),
  };
}

function marksOf(...facts: readonly UsageFacts[]): UsageMark[] {
  return [...new Set(facts.flatMap(({ marks = [] }) => marks))];
}
