import type { TokenCounts } from "../../_shared/money.ts";
import { latestCounts, readStatedCounts } from "../runs/stated-usage.ts";
import { readCompletionUsage, type UsageBound } from "../runs/usage.ts";
import { isObject } from "../structured/canonical.ts";

type Holder = Record<string, unknown>;

/**
 * The usages that a completion or a chunk states, the one that OpenAI would state last. Groq may put it into `x_groq`,
 * and Moonshot into the choice that finishes.
 */
function usagesIn({ usage, choices, x_groq }: Holder): Holder[] {
  const holders = [x_groq, ...(Array.isArray(choices) ? choices : []), { usage }];
  return holders.flatMap((holder) => (isObject(holder) && isObject(holder.usage) ? [holder.usage] : []));
}

/** Reads the usage that a completion or a chunk states. @returns undefined where there is none to charge by */
export function readChatUsage(holder: Holder, bound: UsageBound): Required<TokenCounts> | undefined {
  return usagesIn(holder)
    .map((usage) => readCompletionUsage(usage, bound))
    .reduce((counts, next) => (next ? latestCounts(counts, next) : counts), undefined);
}

/** The usage of a chunk as it is stated, unless it is all zeros and another was stated before. */
export function latestUsage(earlier: Holder | undefined, chunk: Holder): Holder | undefined {
  const counts = (usage: Holder) => Object.values(readStatedCounts(usage)).some((count) => count > 0);
  const usages = usagesIn(chunk);
  return usages.findLast(counts) ?? earlier ?? usages.at(-1);
}
