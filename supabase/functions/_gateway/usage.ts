import { z } from "zod";
import type { TokenCounts } from "../_shared/money.ts";

/** More than any call can use, and well within what numbers hold exactly. */
const count = z.number().int().min(0).max(1e12);
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

/**
 * Reads usage as chat completions state it.
 * @returns undefined where there is none that can be charged by
 */
export function readUsage(value: unknown): Required<TokenCounts> | undefined {
  const parsed = openAiUsage.safeParse(value);
  if (!parsed.success) return undefined;
  const { prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details } = parsed.data;
  return {
    input_tokens: prompt_tokens,
    cached_input_tokens: prompt_tokens_details?.cached_tokens ?? 0,
    audio_input_tokens: prompt_tokens_details?.audio_tokens ?? 0,
    output_tokens: completion_tokens ?? 0,
    reasoning_tokens: completion_tokens_details?.reasoning_tokens ?? 0,
    audio_output_tokens: completion_tokens_details?.audio_tokens ?? 0,
  };
}

const bytesPerToken = 4;

/** A guess at the tokens of a text of so many bytes of UTF-8. What is charged by it never passes the reservation. */
export function guessTokens(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}
