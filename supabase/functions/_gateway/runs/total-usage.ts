import type { TokenCounts } from "../../_shared/money.ts";

/** What a surface calls the counts of its usage. */
type UsageNames = { input: string; output: string };

export const chatUsageNames: UsageNames = { input: "prompt_tokens", output: "completion_tokens" };
export const responseUsageNames: UsageNames = { input: "input_tokens", output: "output_tokens" };

/**
 * The usage that a client is told of an answer in several steps: the last step's as the provider states it, with what
 * the steps before used added.
 */
export function addUsage(stated: unknown, earlier: TokenCounts, { input, output }: UsageNames): unknown {
  if (!isObject(stated)) return stated;
  const add = (value: unknown, more = 0) => (typeof value === "number" ? value + more : more);
  const details = (name: string, member: string, more: number | undefined) => {
    const given = stated[name];
    return isObject(given) ? { [name]: { ...given, [member]: add(given[member], more) } } : {};
  };
  const { input_tokens = 0, output_tokens = 0, cached_input_tokens, reasoning_tokens } = earlier;
  return {
    ...stated,
    [input]: add(stated[input], input_tokens),
    [output]: add(stated[output], output_tokens),
    total_tokens: add(stated.total_tokens, input_tokens + output_tokens),
    ...details(`${input}_details`, "cached_tokens", cached_input_tokens),
    ...details(`${output}_details`, "reasoning_tokens", reasoning_tokens),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
