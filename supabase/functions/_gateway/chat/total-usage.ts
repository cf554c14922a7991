import type { TokenCounts } from "../../_shared/money.ts";

/**
 * The usage that a client is told of an answer in several steps: the last step's as the provider states it, with what
 * the steps before used added.
 */
export function addUsage(stated: unknown, earlier: TokenCounts): unknown {
  if (!isObject(stated)) return stated;
  const add = (value: unknown, more = 0) => (typeof value === "number" ? value + more : more);
  const { input_tokens = 0, output_tokens = 0 } = earlier;
  return {
    ...stated,
    prompt_tokens: add(stated.prompt_tokens, input_tokens),
    completion_tokens: add(stated.completion_tokens, output_tokens),
    total_tokens: add(stated.total_tokens, input_tokens + output_tokens),
    ...(isObject(stated.prompt_tokens_details)
      ? {
          prompt_tokens_details: {
            ...stated.prompt_tokens_details,
            cached_tokens: add(stated.prompt_tokens_details.cached_tokens, earlier.cached_input_tokens),
          },
        }
      : {}),
    ...(isObject(stated.completion_tokens_details)
      ? {
          completion_tokens_details: {
            ...stated.completion_tokens_details,
            reasoning_tokens: add(stated.completion_tokens_details.reasoning_tokens, earlier.reasoning_tokens),
          },
        }
      : {}),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
