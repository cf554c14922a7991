import { z } from "zod";
import { createStreamReader, type Reading, type StreamReader } from "../answers/stream-reader.ts";
import { readCompletionUsage, type UsageBound } from "../runs/usage.ts";
import type { createAssembly } from "./assembly.ts";

const chunkShape = z.looseObject({
  id: z.string().optional().catch(undefined),
  created: z.number().optional().catch(undefined),
  model: z.string().optional().catch(undefined),
  choices: z.array(z.unknown()),
  usage: z.unknown().optional(),
  error: z.unknown().optional(),
});

const content = /^data: ?\{.*?"choices": ?\[/s;
const telling = /"usage"\s*:\s*\{|"error"\s*:|\[DONE\]/;
/** The texts of a chunk that are output. */
export const outputTexts = /"(?:content|reasoning_content|reasoning|refusal|arguments)": ?"/g;

/**
 * Reads a stream of chat completion chunks on its way through, and ends it with `response.completed`, whose data is a
 * chunk too, and `[DONE]`.
 * @param keepUsageChunk the client asked for the usage chunk itself; otherwise it is taken out
 * @param assembly is shown every chunk
 * @param unnamed what the last event is called where no chunk had a name
 */
export function createChatReader(options: {
  keepUsageChunk: boolean;
  usageBound: UsageBound;
  assembly?: ReturnType<typeof createAssembly>;
  unnamed: { id: string; model: string };
}): StreamReader {
  let name = { id: options.unnamed.id, created: 0, model: options.unnamed.model };

  function read(data: unknown): Reading {
    const { success, data: chunk } = chunkShape.safeParse(data);
    if (!success) return { fate: "fail" };
    const usage = readCompletionUsage(chunk.usage, options.usageBound);
    if (isPresent(chunk.error)) return { fate: "fail", usage, usageIsFinal: true };
    if (chunk.id) name = { id: chunk.id, created: chunk.created ?? 0, model: chunk.model ?? "" };
    const usageIsFinal = chunk.choices.length === 0 && isPresent(chunk.usage);
    return {
      fate: usageIsFinal && !options.keepUsageChunk ? "drop" : "pass",
      usage,
      usageIsFinal,
      content: !usageIsFinal,
    };
  }

  const reader = createStreamReader({
    content,
    telling,
    output: outputTexts,
    read,
    observe: options.assembly?.take,
    completion: (platform) => completedEvent({ ...name, platform }),
  });
  return { ...reader, answer: options.assembly?.answer };
}

/** The last event of a streamed chat, and the terminator. */
export function completedEvent(named: {
  id: string;
  created: number;
  model: string;
  platform: Record<string, unknown>;
}): string {
  const { id, created, model, platform } = named;
  const chunk = { id, object: "chat.completion.chunk", created, model, choices: [], platform };
  return `event: response.completed\ndata: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`;
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}
