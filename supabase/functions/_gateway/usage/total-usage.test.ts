import { expect, test } from "vitest";
import { addUsage, chatUsageNames, responseUsageNames } from "./total-usage.ts";

const earlier = { input_tokens: 1000, cached_input_tokens: 900, output_tokens: 100, reasoning_tokens: 50 };

test("returns the usage of the first step exactly as the provider reported it", () => {
  const stated = { prompt_tokens: 10, completion_tokens: 5, cached_tokens: 4 };
  expect(addUsage(stated, {}, chatUsageNames)).toBe(stated);
});

test("reports no total usage if the last step reports no usage", () => {
  for (const stated of [undefined, null, [], "none"]) expect(addUsage(stated, earlier, chatUsageNames)).toBe(stated);
});

test("sums the usage of several steps under OpenAI's field names and keeps fields that are not counts", () => {
  const stated = {
    ...{ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, prompt_cache_hit_tokens: 4 },
    ...{ completion_tokens_details: { reasoning_tokens: 2, audio_tokens: 0 }, cost: 0.1 },
  };
  expect(addUsage(stated, earlier, chatUsageNames)).toEqual({
    ...{ prompt_tokens: 1010, completion_tokens: 105, total_tokens: 1115 },
    prompt_tokens_details: { cached_tokens: 904 },
    completion_tokens_details: { reasoning_tokens: 52, audio_tokens: 0 },
    cost: 0.1,
  });
});

test("includes separately counted tokens in the sums of several steps", () => {
  const stated = { input_tokens: 10, output_tokens: 5, input_tokens_details: { cached_tokens: 500 } };
  expect(addUsage(stated, { input_tokens: 1, output_tokens: 2 }, responseUsageNames)).toEqual({
    ...{ input_tokens: 511, output_tokens: 7, total_tokens: 518 },
    input_tokens_details: { cached_tokens: 500 },
  });
});
