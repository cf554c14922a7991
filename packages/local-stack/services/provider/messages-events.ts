import type { Behaviour } from "./behaviours.ts";
import { type StreamPiece, sseEvent } from "./event-stream.ts";
import type { AnswerBlock, MessageAnswer } from "./messages-answer.ts";
import type { MessageUse } from "./messages-bill.ts";
import { countTokens, type Usage } from "./usage.ts";

type Members = Record<string, unknown>;

/** Returns an answer as one message (https://platform.claude.com/docs/en/api/messages/create). */
export function messageBody(answer: MessageAnswer, behaviour: Behaviour): Members {
  return {
    ...head(answer),
    content: answer.blocks.map(wholeBlock),
    stop_reason: answer.stop,
    ...statedUsage(answer, answer.use, behaviour),
  };
}

/** Returns an answer as stream events (https://platform.claude.com/docs/en/build-with-claude/streaming). */
export function messageEvents(answer: MessageAnswer, behaviour: Behaviour): StreamPiece[] {
  let emitted = "";
  const now = (use: MessageUse): Usage => usageOf({ ...use, output: countTokens(emitted) }, answer.thinking);
  const piece = (data: Members & { type: string }): StreamPiece => ({
    text: sseEvent(data, data.type),
    usage: now(answer.before),
  });
  // Anthropic already reports a few output tokens at the beginning.
  const startUsage = { ...answer.before, output: 1 };
  const start = { ...head(answer), content: [], stop_reason: null, ...statedUsage(answer, startUsage, behaviour) };
  const pieces = [piece({ type: "message_start", message: start }), piece({ type: "ping" })];
  for (const [index, each] of answer.blocks.entries()) {
    pieces.push(piece({ type: "content_block_start", index, content_block: emptyBlock(each) }));
    for (const delta of deltasOf(each)) {
      emitted += delta.text;
      pieces.push(piece({ type: "content_block_delta", index, delta: delta.data }));
    }
    pieces.push(piece({ type: "content_block_stop", index }));
  }
  const delta = { stop_reason: answer.stop, stop_sequence: null };
  const end = { type: "message_delta", delta, ...statedUsage(answer, answer.use, behaviour) };
  return [
    ...pieces,
    { text: sseEvent(end, end.type), usage: now(answer.use), reportsUsage: true },
    { text: sseEvent({ type: "message_stop" }, "message_stop"), usage: now(answer.use) },
  ];
}

/**
 * Converts a call's usage to the truth log's format. The input includes tokens read from the cache or written to it.
 */
export function usageOf(use: MessageUse, reasoning: number): Usage {
  const { uncached, cacheRead, cacheWrite5m, cacheWrite1h, output } = use;
  const input = uncached + cacheRead + cacheWrite5m + cacheWrite1h;
  return { input, cachedInput: cacheRead, output, reasoning: Math.min(reasoning, output), billed: use };
}

function head({ id, model }: MessageAnswer): Members {
  return { id, type: "message", role: "assistant", model, stop_sequence: null };
}

function statedUsage({ thinking }: MessageAnswer, use: MessageUse, behaviour: Behaviour): { usage?: Members } {
  if (behaviour.usage === "none") return {};
  return {
    usage: {
      input_tokens: use.uncached,
      cache_creation_input_tokens: use.cacheWrite5m + use.cacheWrite1h,
      cache_read_input_tokens: use.cacheRead,
      cache_creation: {
        ephemeral_5m_input_tokens: use.cacheWrite5m,
        ephemeral_1h_input_tokens: use.cacheWrite1h,
      },
      output_tokens: use.output,
      output_tokens_details: thinking > 0 ? { thinking_tokens: Math.min(thinking, use.output) } : null,
      server_tool_use: use.searches > 0 ? { web_search_requests: use.searches, web_fetch_requests: 0 } : null,
      service_tier: "standard",
    },
  };
}

function wholeBlock({ block, member, text }: AnswerBlock): Members {
  if (member === undefined) return block;
  return { ...block, [member]: member === "input" ? parseInput(text) : text };
}

/** Parses a tool's input. An input that the output limit cut off is empty. */
function parseInput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function emptyBlock({ block, member }: AnswerBlock): Members {
  if (member === undefined) return block;
  if (member === "thinking") return { ...block, thinking: "", signature: "" };
  return { ...block, [member]: member === "input" ? {} : "" };
}

const slice = 12;

function deltasOf({ block, member, text }: AnswerBlock): { data: Members; text: string }[] {
  if (member === undefined) return [];
  const [type, name] = {
    text: ["text_delta", "text"],
    thinking: ["thinking_delta", "thinking"],
    input: ["input_json_delta", "partial_json"],
  }[member];
  const parts = text.match(member === "input" ? new RegExp(`[^]{1,${slice}}`, "g") : /\s*\S+/g) ?? [];
  const deltas = parts.map((part) => ({ data: { type, [name as string]: part }, text: part }));
  if (member !== "thinking") return deltas;
  return [...deltas, { data: { type: "signature_delta", signature: block.signature }, text: "" }];
}
