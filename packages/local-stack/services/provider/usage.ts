import { type ChatRequest, textOf } from "./chat-request.ts";
import type { MessageUse } from "./messages-bill.ts";

/** A call's actual usage, even if the answer reports something else. `billed` is set only for the Messages API. */
export type Usage = { input: number; cachedInput: number; output: number; reasoning: number; billed?: MessageUse };

export const noUsage: Usage = { input: 0, cachedInput: 0, output: 0, reasoning: 0 };

const tokensPerMessage = 3;
const tokensPerImage = 85;
const tokensPerAudio = 100;

/** Counts tokens by the demo's rule: one per four bytes of UTF-8, rounded up. */
export function countTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 4);
}

/**
 * Counts a chat's input tokens: the tokens of its text, 3 for each message, 85 for each image and 100 for each audio
 * part. Tools and tool calls count as their JSON.
 */
export function inputTokens({ messages, tools }: ChatRequest): number {
  const ofMessages = messages.map((message) => {
    const parts = Array.isArray(message.content) ? message.content : [];
    const images = parts.filter(({ type }) => type === "image_url").length;
    const audio = parts.filter(({ type }) => type === "input_audio").length;
    const calls = message.tool_calls ? countTokens(JSON.stringify(message.tool_calls)) : 0;
    return countTokens(textOf(message)) + tokensPerMessage + images * tokensPerImage + audio * tokensPerAudio + calls;
  });
  const ofTools = tools && tools.length > 0 ? countTokens(JSON.stringify(tools)) : 0;
  return ofMessages.reduce((sum, count) => sum + count, ofTools);
}

/** Formats usage as in chat completions, where reasoning is part of the output. */
export function completionUsage({ input, cachedInput, output, reasoning }: Usage) {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cachedInput, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: 0 },
  };
}

/** Formats usage as in the Responses API. */
export function responseUsage({ input, cachedInput, output, reasoning }: Usage) {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cachedInput, cache_write_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input + output,
  };
}
