import type { TokenCounts } from "../../_shared/money.ts";

/** A reason for an operator to look at the usage of a call. */
export type UsageMark =
  /** The provider stated more than the model's context window, so the window is charged. */
  | "above_context_window"
  /**
   * Like `above_context_window`, for a model that has no context window in the catalogue: the largest window of any
   * model is charged. Also set for more fees or a higher cost than a call can have.
   */
  | "implausible"
  /** The answer is longer than the output limit of the call. */
  | "above_output_limit"
  /** The answer was served at a tier without a price, so the default prices are charged. */
  | "unpriced_tier";

/** What a provider states about a call in addition to its counts, and the marks for an operator. */
export type UsageFacts = {
  /** The provider's own price of the call, as exact decimal text. */
  statedCostUsd?: string;
  /** The `service_tier` of the answer. */
  servedTier?: string;
  marks?: readonly UsageMark[];
};

/** Counts that are sufficient to charge by. */
export type CallCounts = TokenCounts & { input_tokens: number; output_tokens: number };

/** A call's usage as stated by its provider. */
export type StatedUsage = UsageFacts & { counts: CallCounts };

/** The maximum usage of a call. */
export type UsageLimits = {
  /** The model's context window in tokens; absent if the catalogue has none. */
  contextWindow?: number;
  /** Tokens per choice; 0 if the answer has no output. */
  outputLimit: number;
  choices: number;
};

/** Combines two statements about one call. The later one wins, but a zero never replaces a count. */
export function latestUsage(earlier: StatedUsage | undefined, later: StatedUsage): StatedUsage {
  if (!earlier) return later;
  const counts = { ...earlier.counts };
  for (const [name, count] of Object.entries(later.counts)) if (count > 0) counts[name as keyof TokenCounts] = count;
  const { statedCostUsd = earlier.statedCostUsd, servedTier = earlier.servedTier } = later;
  const statedCost = Number(statedCostUsd) > 0 ? statedCostUsd : (earlier.statedCostUsd ?? statedCostUsd);
  return withFacts(counts, { statedCostUsd: statedCost, servedTier, marks: marksOf(earlier, later) });
}

/** Returns what a call used, as its provider stated it. */
export function callUse<Basis extends string>(
  { counts, ...facts }: StatedUsage,
  { route, basis }: { route: number; basis: Basis },
): UsageFacts & { route: number; usage: CallCounts; basis: Basis } {
  return { ...facts, route, usage: counts, basis };
}

export function marked<Facts extends UsageFacts>(facts: Facts, ...marks: readonly UsageMark[]): Facts {
  return marks.length > 0 ? { ...facts, marks: marksOf(facts, { marks }) } : facts;
}

/** Returns counts together with the known facts. */
export function withFacts(counts: CallCounts, { statedCostUsd, servedTier, marks = [] }: UsageFacts): StatedUsage {
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
