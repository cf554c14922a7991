import { z } from "zod";
import { isObject, parseJsonOrUndefined } from "../../_shared/json.ts";
import type { StreamedAnswer } from "../answers/stream-reader.ts";

type Members = Record<string, unknown>;

const event = z.looseObject({
  type: z.string(),
  index: z.number().int().min(0).max(10_000).optional(),
  message: z.looseObject({}).optional(),
  content_block: z.looseObject({}).optional(),
  delta: z.looseObject({ type: z.string().optional() }).optional(),
  usage: z.looseObject({}).nullish(),
});

/** Assembles the events of a streamed message into the message. */
export type MessageAssembly = ReturnType<typeof createMessageAssembly>;

/**
 * Creates an assembly for one stream. It works as in Anthropic's SDK (src/lib/MessageStream.ts of
 * github.com/anthropics/anthropic-sdk-typescript).
 */
export function createMessageAssembly() {
  let message: Members | undefined;
  const blocks: Members[] = [];
  const inputs = new Map<number, string>();

  function addDelta(index: number, delta: Members): void {
    const block = blocks[index];
    if (!block) return;
    const append = (member: string) => {
      block[member] = `${block[member] ?? ""}${delta[member] ?? ""}`;
    };
    if (delta.type === "text_delta") append("text");
    else if (delta.type === "thinking_delta") append("thinking");
    else if (delta.type === "signature_delta") block.signature = delta.signature;
    else if (delta.type === "input_json_delta")
      inputs.set(index, `${inputs.get(index) ?? ""}${delta.partial_json ?? ""}`);
    else if (delta.type === "citations_delta") {
      block.citations = [...(Array.isArray(block.citations) ? block.citations : []), delta.citation];
    }
  }

  return {
    add(data: unknown): void {
      const { data: part } = event.safeParse(data);
      if (!part) return;
      const { type, index = 0, delta = {} } = part;
      if (type === "message_start") message = { ...part.message };
      else if (type === "content_block_start") blocks[index] = { ...part.content_block };
      else if (type === "content_block_delta") addDelta(index, delta);
      else if (type === "message_delta" && message) {
        const usage = Object.entries(part.usage ?? {}).filter(([, value]) => value !== null);
        message = { ...message, ...delta, usage: { ...readMembers(message.usage), ...Object.fromEntries(usage) } };
      }
    },
    /** Returns the message so far, or undefined before it has begun. */
    message(): StreamedAnswer | undefined {
      if (!message) return undefined;
      const content = blocks.map((block, index) => {
        const input = inputs.get(index);
        if (input === undefined) return block;
        // If the stream was cut off, the input is incomplete JSON.
        const value = parseJsonOrUndefined(input || "{}");
        return { ...block, input: value === undefined ? input : value };
      });
      return { value: { ...message, content }, texts: () => [] };
    },
  };
}

/** Returns an object's members, or none for another value. */
export function readMembers(value: unknown): Members {
  return isObject(value) ? value : {};
}
