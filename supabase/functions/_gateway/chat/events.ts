import type { TokenCounts } from "../../_shared/money.ts";
import { createStreamReader, type EventReading, type StreamReader } from "../answers/stream-reader.ts";
import type { Platform } from "../runs/run.ts";
import type { UsageLimits } from "../usage/usage.ts";
import type { createAssembly } from "./assembly.ts";
import { chooseUsage, createChunkReader } from "./completion.ts";

const encoder = new TextEncoder();
const content = /^data: ?\{.*?"choices": ?\[/s;
const mustParsePattern = /"usage"\s*:\s*\{|"tool_calls"\s*:\s*\[\s*\{|"finish_reason"\s*:\s*"[^"]|"error"\s*:|\[DONE\]/;
/** Finds the output texts of a chunk or a whole completion. Each match ends where a text begins. */
export const outputTexts = /"(?:content|reasoning_content|reasoning|refusal|arguments|input)"\s*:\s*"/g;

/**
 * Creates a reader for a stream of chat completion chunks. The client gets usage only in the last event, because
 * clients such as openai-java's ChatCompletionAccumulator accept no chunk after it.
 * @param wantsUsage whether the client sent `stream_options.include_usage`
 * @param choices the number of requested choices
 * @param assembly receives every chunk
 * @param unnamed id and model for the last event if no chunk had them
 */
export function createChatReader(options: {
  wantsUsage: boolean;
  usageLimits: UsageLimits;
  choices?: number;
  assembly?: ReturnType<typeof createAssembly>;
  unnamed: { id: string; model: string };
}): StreamReader {
  let name = { id: options.unnamed.id, created: 0, model: options.unnamed.model };

  const readChunk = createChunkReader({ choices: options.choices ?? 1, usageLimits: options.usageLimits });
  let usage: Record<string, unknown> | undefined;

  function read(data: unknown): EventReading {
    const { chunk, corrected, ...reading } = readChunk(data);
    if (!chunk) return reading;
    if (chunk.choices && chunk.id) name = { id: chunk.id, created: chunk.created ?? 0, model: chunk.model ?? "" };
    usage = chooseUsage(usage, chunk);
    if (reading.usageIsFinal) return { ...reading, action: "drop" };
    const isChanged = corrected || chunk.usage != null;
    return isChanged ? { ...reading, action: withoutUsage(data as { usage: unknown }) } : reading;
  }

  const reader = createStreamReader({
    content,
    mustParse: mustParsePattern,
    output: outputTexts,
    read,
    observe: options.assembly?.take,
    completion: (platform) => completedEvent({ ...name, wantsUsage: options.wantsUsage, usage, platform }),
  });
  return { ...reader, answer: options.assembly?.answer };
}

/**
 * Returns the last event of a streamed chat, which is named `response.completed`, and the terminator `[DONE]`. If the
 * client requested usage, the event has empty choices, as OpenAI documents. Otherwise it has one choice, since clients
 * read `chunk.choices[0].delta` of every chunk.
 * @param named.usage the usage as the provider stated it; the charged counts are used if it is absent
 */
export function completedEvent(named: {
  id: string;
  created: number;
  model: string;
  wantsUsage: boolean;
  usage: unknown;
  platform: Platform;
}): string {
  const { id, created, model, wantsUsage, platform } = named;
  const choices = wantsUsage ? [] : [{ index: 0, delta: {}, finish_reason: null }];
  const usage = named.usage ?? chargedUsage(platform.usage);
  const chunk = { id, object: "chat.completion.chunk", created, model, choices, usage, platform };
  return `event: response.completed\ndata: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`;
}

function chargedUsage({ input_tokens = 0, output_tokens = 0 }: TokenCounts): object {
  return {
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    total_tokens: input_tokens + output_tokens,
  };
}

function withoutUsage({ usage, ...chunk }: { usage: unknown }): Uint8Array {
  return encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`);
}
