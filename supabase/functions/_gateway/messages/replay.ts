import { z } from "zod";
import { stopEvent } from "./events.ts";

type Members = Record<string, unknown>;

const storedMessage = z.looseObject({
  content: z.array(z.looseObject({ type: z.string() })),
  stop_reason: z.string().nullish(),
  stop_sequence: z.string().nullish(),
  usage: z.looseObject({}),
  platform: z.looseObject({}),
});
type Block = z.infer<typeof storedMessage>["content"][number];

/** Returns a stored message as a stream. Each block is sent in one piece, and the message's end follows. */
export function replayMessage(answer: unknown): string {
  const { platform, content, stop_reason = null, stop_sequence = null, usage, ...head } = storedMessage.parse(answer);
  const initial = {
    ...head,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...usage, output_tokens: 0 },
  };
  const events = [
    { type: "message_start", message: initial },
    ...content.flatMap(blockEvents),
    { type: "message_delta", delta: { stop_reason, stop_sequence }, usage },
  ];
  const lines = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  return lines.join("") + stopEvent({ type: "message_stop", platform });
}

function blockEvents(block: Block, index: number): ({ type: string } & Members)[] {
  const { empty, deltas } = splitBlock(block);
  return [
    { type: "content_block_start", index, content_block: { ...block, ...empty } },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ];
}

/**
 * Splits a block into the empty block that begins it and the deltas that follow. Types without deltas are sent whole at
 * the beginning.
 */
function splitBlock(block: Block): { empty: Members; deltas: Members[] } {
  const { type, text, citations, thinking, signature, input } = block;
  if (type === "text") {
    const cited = Array.isArray(citations) ? citations : [];
    return {
      empty: { text: "", ...(cited.length > 0 ? { citations: [] } : {}) },
      deltas: [{ type: "text_delta", text }, ...cited.map((citation) => ({ type: "citations_delta", citation }))],
    };
  }
  if (type === "thinking") {
    const deltas = [
      { type: "thinking_delta", thinking },
      { type: "signature_delta", signature },
    ];
    return { empty: { thinking: "", signature: "" }, deltas };
  }
  if (type !== "tool_use" && type !== "server_tool_use") return { empty: {}, deltas: [] };
  return { empty: { input: {} }, deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(input) }] };
}
