import type { CallCounts, UsageLimits, UsageMark } from "./usage.ts";

/**
 * The highest plausible values for one call. The token counts apply only to models without a context window in the
 * catalogue. The database couldn't store much larger values.
 */
const plausibleMaximums = {
  inputTokens: 10_000_000,
  outputTokens: 1_000_000,
  feeRequests: 10_000,
  costUsd: 100_000,
} as const;

/**
 * Caps the stated input and output separately at the model's context window. A provider that fetches pages itself may
 * state an input far larger than the request, but never larger than the window.
 */
export function capToContextWindow(
  stated: CallCounts,
  { contextWindow, outputLimit, choices }: UsageLimits,
): { counts: CallCounts; marks: UsageMark[] } {
  const marks: UsageMark[] = [];
  const { input_tokens, output_tokens, reasoning_tokens = 0 } = stated;
  // Reasoning is not counted, because some providers don't count it against the limit.
  if (output_tokens - reasoning_tokens > outputLimit * choices) marks.push("above_output_limit");
  const input = Math.min(input_tokens, contextWindow ?? plausibleMaximums.inputTokens);
  const output = Math.min(output_tokens, (contextWindow ?? plausibleMaximums.outputTokens) * choices);
  const { fee_requests = 0 } = stated;
  const fees = Math.min(fee_requests, plausibleMaximums.feeRequests);
  if (fees < fee_requests) marks.push("implausible");
  if (input < input_tokens || output < output_tokens) {
    marks.push(contextWindow === undefined ? "implausible" : "above_context_window");
  } else if (fees === fee_requests) return { counts: stated, marks };
  return { counts: capParts({ ...stated, input_tokens: input, output_tokens: output, fee_requests: fees }), marks };
}

/** Drops an implausible cost, so that the counts are charged instead. */
export function capCost(statedUsd: string | undefined): { statedCostUsd?: string; marks: UsageMark[] } {
  return Number(statedUsd) > plausibleMaximums.costUsd
    ? { marks: ["implausible"] }
    : { statedCostUsd: statedUsd, marks: [] };
}

/**
 * Limits each part, such as cache reads or reasoning, to the total input or output tokens. Cache reads and writes
 * together never exceed the input. Drops parts that are zero.
 */
export function capParts(counts: CallCounts): CallCounts {
  const { input_tokens: input, output_tokens: output } = counts;
  const reads = Math.min(counts.cached_input_tokens ?? 0, input);
  const hourWrites = Math.min(counts.cache_write_1h_tokens ?? 0, input - reads);
  const writes = Math.min(counts.cache_write_tokens ?? 0, input - reads - hourWrites);
  const uncached = input - reads - hourWrites - writes;
  const audio = Math.min(counts.audio_input_tokens ?? 0, uncached);
  const parts = {
    cached_input_tokens: reads,
    cache_write_tokens: writes,
    cache_write_1h_tokens: hourWrites,
    audio_input_tokens: audio,
    image_input_tokens: Math.min(counts.image_input_tokens ?? 0, uncached - audio),
    reasoning_tokens: Math.min(counts.reasoning_tokens ?? 0, output),
    audio_output_tokens: Math.min(counts.audio_output_tokens ?? 0, output),
    fee_requests: counts.fee_requests ?? 0,
  };
  const stated = Object.entries(parts).filter(([, count]) => count > 0);
  return { input_tokens: input, output_tokens: output, ...Object.fromEntries(stated) };
}
