import { z } from "zod";
import type { TokenCounts } from "../_shared/money.ts";

const count = z.number().int().min(0);
const details = z.looseObject({
  cached_tokens: count.nullish(),
  audio_tokens: count.nullish(),
  reasoning_tokens: count.nullish(),
});
const openAiUsage = z.looseObject({
  prompt_tokens: count,
  completion_tokens: count.nullish(),
  prompt_tokens_details: details.nullish(),
  completion_tokens_details: details.nullish(),
});

/** What a request can use at the very most, and whom to tell that a provider stated more. */
export type UsageBound = { inputTokens: number; outputTokens: number; exceeded: () => void };

/** A provider's own prompts; an image at its dearest; and answers that outrun their limit, thoughts not counted in it. */
const allowance = { inputTokens: 10_000, tokensPerImage: 100_000, outputTokens: 100_000, outputFactor: 4 } as const;

/** No token has less than a byte, so that nothing honest comes near this; what does not is a fault, and is not charged. */
export function usageBound(asked: {
  inputBytes: number;
  images: number;
  outputLimit: number;
  choices: number;
}): Omit<UsageBound, "exceeded"> {
  return {
    inputTokens: asked.inputBytes + asked.images * allowance.tokensPerImage + allowance.inputTokens,
    outputTokens: asked.choices * (asked.outputLimit * allowance.outputFactor + allowance.outputTokens),
  };
}

/**
 * Reads usage as chat completions state it.
 * @returns undefined where there is none that can be charged by
 */
export function readUsage(value: unknown, bound: UsageBound): Required<TokenCounts> | undefined {
  const parsed = openAiUsage.safeParse(value);
  if (!parsed.success) return undefined;
  const { prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details } = parsed.data;
  if (prompt_tokens > bound.inputTokens || (completion_tokens ?? 0) > bound.outputTokens) {
    bound.exceeded();
    return undefined;
  }
  return {
    input_tokens: prompt_tokens,
    cached_input_tokens: prompt_tokens_details?.cached_tokens ?? 0,
    audio_input_tokens: prompt_tokens_details?.audio_tokens ?? 0,
    output_tokens: completion_tokens ?? 0,
    reasoning_tokens: completion_tokens_details?.reasoning_tokens ?? 0,
    audio_output_tokens: completion_tokens_details?.audio_tokens ?? 0,
  };
}

/** A provider stated more than its call can have used. */
export class ImplausibleUsage extends Error {
  override readonly name = "ImplausibleUsage";
}

const bytesPerToken = 4;

/** A guess at the tokens of a text of so many bytes of UTF-8. What is charged by it never passes the reservation. */
export function guessTokens(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}
