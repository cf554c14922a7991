import { isObject } from "../../_shared/json.ts";
import type { TokenCounts } from "../../_shared/money.ts";
import { findStatedCount, readStatedCounts } from "./stated-counts.ts";
import { toTokenCounts } from "./token-counts.ts";

/** The names of the token counts in a surface's usage. */
type UsageNames = { input: string; output: string };

export const chatUsageNames: UsageNames = { input: "prompt_tokens", output: "completion_tokens" };
export const responseUsageNames: UsageNames = { input: "input_tokens", output: "output_tokens" };

/**
 * Returns the usage of a multi-step answer. Replaces the last step's token counts with the totals of all steps, under
 * OpenAI's names. Keeps the last step's other fields as the provider stated them.
 */
export function addUsage(stated: unknown, earlier: TokenCounts, { input, output }: UsageNames): unknown {
  if (!isObject(stated) || Object.keys(earlier).length === 0) return stated;
  const last = readStatedCounts(stated);
  const own = toTokenCounts({ ...last, input: last.input ?? 0, output: last.output ?? 0 });
  const sum = (name: keyof TokenCounts) => (own[name] ?? 0) + (earlier[name] ?? 0);
  const details = (name: string, member: string, count: number) => {
    const given = stated[name];
    return isObject(given) || count > 0 ? { [name]: { ...(isObject(given) ? given : {}), [member]: count } } : {};
  };
  const rest = Object.entries(stated).filter(([name]) => !findStatedCount(name, "usage"));
  return {
    ...Object.fromEntries(rest),
    [input]: sum("input_tokens"),
    [output]: sum("output_tokens"),
    total_tokens: sum("input_tokens") + sum("output_tokens"),
    ...details(`${input}_details`, "cached_tokens", sum("cached_input_tokens")),
    ...details(`${output}_details`, "reasoning_tokens", sum("reasoning_tokens")),
  };
}
