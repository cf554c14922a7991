import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { hasError, reportsError } from "../answers/error-events.ts";
import type { EventReading } from "../answers/stream-reader.ts";
import type { OutputTexts } from "../structured/answer-schema.ts";
import type { Turn } from "../tools/tool-loop.ts";
import { readCompletionUsage, readTier } from "../usage/read-usage.ts";
import { readStatedCounts } from "../usage/stated-counts.ts";
import { latestUsage, type StatedUsage, type UsageLimits } from "../usage/usage.ts";
import { createToolCallNumbering } from "./tool-calls.ts";

const chunkShape = z.looseObject({
  id: z.string().optional().catch(undefined),
  created: z.number().optional().catch(undefined),
  model: z.string().optional().catch(undefined),
  choices: z.array(z.unknown()).nullish(),
});
export type Chunk = z.infer<typeof chunkShape>;

/**
 * The result of reading an event, with its chunk if the stream continues. `corrected` is true if the chunk was changed
 * in place.
 */
type ReadChunk = EventReading & { chunk?: Chunk; corrected?: boolean };

/**
 * Returns a function that reads usage, errors and finish reasons from the chunks of a stream.
 * @param choices the number of requested choices
 */
export function createChunkReader({
  choices: requestedChoices,
  usageLimits,
}: {
  choices: number;
  usageLimits: UsageLimits;
}): (data: unknown) => ReadChunk {
  const finished = new Set<unknown>();
  const numberToolCalls = createToolCallNumbering();
  return (data) => {
    const { success, data: chunk } = chunkShape.safeParse(data);
    if (!success) return { action: "fail" };
    const { choices } = chunk;
    const usage = readChatUsage(chunk, usageLimits);
    if (choices ? hasError(chunk) : reportsError(chunk)) {
      return { action: "fail", usage, usageIsFinal: true, ending: "error" };
    }
    const statesUsage = usage !== undefined || chunk.usage != null;
    // Drops events that are not chunks, such as {"type":"ping"}, because standard clients fail on them.
    if (!choices && !statesUsage) return { action: "drop" };
    for (const choice of choices ?? []) {
      if (isObject(choice) && isFinishReason(choice.finish_reason)) finished.add(choice.index ?? 0);
    }
    const usageIsFinal = !choices?.length && statesUsage;
    return {
      action: "pass",
      chunk,
      corrected: numberToolCalls(choices ?? []),
      usage,
      usageIsFinal,
      servedTier: readTier(chunk),
      finished: finished.size >= requestedChoices,
      hasReason: finished.size > 0,
      // Azure's first chunk has no choices, only the prompt's filter results.
      content: Boolean(choices?.length),
    };
  };
}

/**
 * Returns whether a finish reason ends its choice. Any text does, except "null", which DashScope sends until the end.
 */
export function isFinishReason(reason: unknown): boolean {
  return Boolean(reason) && reason !== "null";
}

/** Returns the finish reason of an answer whose calls of the gateway's own tools the client does not receive. */
export function replaceToolCallFinish(reason: unknown): unknown {
  return reason === "tool_calls" ? "stop" : reason;
}

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const message = z.looseObject({
  tool_calls: z
    .array(
      z.looseObject({
        id: text,
        function: z.looseObject({ name: z.string(), arguments: text }),
      }),
    )
    .nullish(),
});
const firstChoice = z.looseObject({ choices: z.array(z.looseObject({ message: z.unknown() })).min(1) });

/**
 * Returns the first message of a whole chat completion and the tool calls in it. Both are empty if the message is
 * missing.
 */
export function readMessage(answer: unknown): Turn {
  return readTurn(firstChoice.safeParse(answer).data?.choices[0]?.message);
}

/** Returns an assistant's message and its tool calls. The message is sent back to the provider unchanged. */
export function readTurn(value: unknown): Turn {
  const { success, data } = message.safeParse(value);
  if (!success) return { output: [], toolCalls: [] };
  const toolCalls = (data.tool_calls ?? []).map(({ id, function: { name, arguments: text } }) => ({
    id,
    name,
    arguments: text,
  }));
  return { output: [value as object], toolCalls };
}

const toolChoices = z.array(z.looseObject({ message: z.looseObject({}), finish_reason: z.unknown() }));

/** Returns the choices of a whole chat completion without calls of the gateway's own tools. */
export function withoutToolCalls(choices: unknown): unknown {
  const { data } = toolChoices.safeParse(choices);
  if (!data) return choices;
  return data.map(({ message: { tool_calls, ...message }, ...choice }) => ({
    ...choice,
    message,
    finish_reason: replaceToolCallFinish(choice.finish_reason),
  }));
}

const chatChoices = z.looseObject({
  choices: z.array(
    z.looseObject({
      message: z.looseObject({ content: z.string().nullish(), tool_calls: z.array(z.unknown()).nullish() }),
    }),
  ),
});

/** Returns the texts in the choices of a whole chat completion, leaving out choices that call functions. */
export function readChatTexts(value: unknown): OutputTexts {
  const choices = chatChoices.safeParse(value).data?.choices ?? [];
  return choices.flatMap(({ message }) => (message.tool_calls?.length ? [] : [message.content ?? null]));
}

type Holder = Record<string, unknown>;

/**
 * Returns the usage objects in a completion or a chunk. OpenAI's own field `usage` comes last. Groq may put usage into
 * `x_groq`, Moonshot into the choice that finishes, llama.cpp into `timings`, and Ollama's own API into the answer
 * itself.
 */
function usagesIn(holder: Holder): Holder[] {
  const { usage, choices, x_groq, timings } = holder;
  const holders = [x_groq, ...(Array.isArray(choices) ? choices : []), { usage }];
  const stated = holders.flatMap((each) => (isObject(each) && isObject(each.usage) ? [each.usage] : []));
  const own = "prompt_eval_count" in holder || "eval_count" in holder ? [holder] : [];
  return [...own, ...(isObject(timings) ? usageOfTimings(timings) : []), ...stated];
}

/** Reads llama.cpp's token counts: https://github.com/ggml-org/llama.cpp/pull/15827 */
function usageOfTimings({ prompt_n, cache_n = 0, predicted_n }: Holder): Holder[] {
  if (typeof prompt_n !== "number" || typeof cache_n !== "number") return [];
  return [{ prompt_tokens: prompt_n + cache_n, completion_tokens: predicted_n, cached_tokens: cache_n }];
}

/**
 * Reads the usage that a completion or a chunk states. @returns undefined if the counts are too incomplete for a charge
 */
export function readChatUsage(holder: Holder, limits: UsageLimits): StatedUsage | undefined {
  const usage = usagesIn(holder)
    .map((stated) => readCompletionUsage(stated, limits))
    .reduce((earlier, next) => (next ? latestUsage(earlier, next) : earlier), undefined);
  const servedTier = readTier(holder);
  return usage && servedTier !== undefined ? { ...usage, servedTier } : usage;
}

/** Returns the usage of a chunk as stated, or the earlier usage if the chunk's counts are all zero. */
export function chooseUsage(earlier: Holder | undefined, chunk: Holder): Holder | undefined {
  const hasCounts = (usage: Holder) => Object.values(readStatedCounts(usage)).some((count) => count > 0);
  const usages = usagesIn(chunk);
  return usages.findLast(hasCounts) ?? earlier ?? usages.at(-1);
}
