import { isObject } from "../structured/canonical.ts";
import { readCompletionUsage, readTier } from "../usage/read-usage.ts";
import { readStatedCounts } from "../usage/stated-counts.ts";
import { latestUsage, type StatedUsage, type UsageLimits } from "../usage/usage.ts";

type Holder = Record<string, unknown>;

/**
 * The usages that a completion or a chunk states, the one that OpenAI would state last. Groq may put it into `x_groq`,
 * Moonshot into the choice that finishes, llama.cpp into `timings`, and Ollama's own API into the answer itself.
 */
function usagesIn(holder: Holder): Holder[] {
  const { usage, choices, x_groq, timings } = holder;
  const holders = [x_groq, ...(Array.isArray(choices) ? choices : []), { usage }];
  const stated = holders.flatMap((each) => (isObject(each) && isObject(each.usage) ? [each.usage] : []));
  const own = "prompt_eval_count" in holder || "eval_count" in holder ? [holder] : [];
  return [...own, ...(isObject(timings) ? usageOfTimings(timings) : []), ...stated];
}

/** llama.cpp's count of a call: https://github.com/ggml-org/llama.cpp/pull/15827 */
function usageOfTimings({ prompt_n, cache_n = 0, predicted_n }: Holder): Holder[] {
  if (typeof prompt_n !== "number" || typeof cache_n !== "number") return [];
  return [{ prompt_tokens: prompt_n + cache_n, completion_tokens: predicted_n, cached_tokens: cache_n }];
}

/** Reads the usage that a completion or a chunk states. @returns undefined where it states too little to charge by */
export function readChatUsage(holder: Holder, limits: UsageLimits): StatedUsage | undefined {
  const usage = usagesIn(holder)
    .map((stated) => readCompletionUsage(stated, limits))
    .reduce((earlier, next) => (next ? latestUsage(earlier, next) : earlier), undefined);
  const servedTier = readTier(holder);
  return usage && servedTier !== undefined ? { ...usage, servedTier } : usage;
}

/** The usage of a chunk as it is stated, unless it is all zeros and another was stated before. */
export function usageToShow(earlier: Holder | undefined, chunk: Holder): Holder | undefined {
  const hasCounts = (usage: Holder) => Object.values(readStatedCounts(usage)).some((count) => count > 0);
  const usages = usagesIn(chunk);
  return usages.findLast(hasCounts) ?? earlier ?? usages.at(-1);
}
