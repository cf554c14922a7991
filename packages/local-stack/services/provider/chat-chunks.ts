import { type Choice, type Completion, calledBy } from "./completion.ts";
import { completionUsage, countTokens, type Usage } from "./usage.ts";

/** A stream event, and the total usage after that event. */
export type ChatChunk = { data: Record<string, unknown>; usage: Usage };

const argumentSlice = 12;

/**
 * Returns the chunks of a streamed response without the final usage: for each choice its role, its content and its end.
 */
export function chatChunks(completion: Completion): ChatChunk[] {
  const { input, cachedInput, reasoning } = completion.usage;
  let written = reasoning;
  return completion.choices.flatMap((choice, index) => {
    const before = written;
    const chunks = deltas(choice).map(({ delta, finish, tokens }) => {
      written = before + tokens;
      const choices = [{ index, delta, logprobs: null, finish_reason: finish ?? null }];
      return { data: chunk(completion, choices), usage: { input, cachedInput, output: written, reasoning } };
    });
    return chunks;
  });
}

/** Returns the final chunk, which reports the usage. */
export function usageChunk(completion: Completion): Record<string, unknown> {
  return { ...chunk(completion, []), usage: completionUsage(completion.usage) };
}

type Delta = { delta: Record<string, unknown>; finish?: string; tokens: number };

function deltas({ text, reasoning, toolCall, finish }: Choice): Delta[] {
  const thought = reasoning ? { reasoning_content: reasoning } : {};
  const start = { role: "assistant", content: toolCall ? null : "", refusal: null, ...thought };
  if (!toolCall) {
    let sent = "";
    const words = (text.match(/\s*\S+/g) ?? []).map((word) => {
      sent += word;
      return { delta: { content: word }, tokens: countTokens(sent) };
    });
    return [{ delta: start, tokens: 0 }, ...words, { delta: {}, finish, tokens: countTokens(text) }];
  }
  const { type } = toolCall;
  const { name, arguments: args, input = "" } = calledBy(toolCall);
  const member = type === "function" ? "arguments" : "input";
  const tokens = countTokens(JSON.stringify(calledBy(toolCall)));
  const slices = (args ?? input).match(new RegExp(`[^]{1,${argumentSlice}}`, "g")) ?? [];
  const opening = { index: 0, ...toolCall, [type]: { name, [member]: "" } };
  return [
    { delta: { ...start, tool_calls: [opening] }, tokens: countTokens(name) },
    ...slices.map((slice) => ({ delta: { tool_calls: [{ index: 0, [type]: { [member]: slice } }] }, tokens })),
    { delta: {}, finish, tokens },
  ];
}

function chunk({ id, created, model }: Completion, choices: unknown[]): Record<string, unknown> {
  return { id, object: "chat.completion.chunk", created, model, system_fingerprint: "fp_demo", choices };
}
