import { z } from "zod";
import { mergeDelta, wholeMessage } from "../../_shared/chat-delta.ts";
import { createStreamReader, type EventReading } from "../answers/stream-reader.ts";
import type { Step, StepReader } from "../tools/tool-loop.ts";
import { addUsage, chatUsageNames } from "../usage/total-usage.ts";
import type { createAssembly } from "./assembly.ts";
import {
  type Chunk,
  chooseUsage,
  createChunkReader,
  isFinishReason,
  readTurn,
  replaceToolCallFinish,
} from "./completion.ts";
import { completedEvent, outputTexts } from "./events.ts";

/** Azure's asynchronous content filter sends choices without a delta. */
const delta = z
  .looseObject({ tool_calls: z.array(z.looseObject({})).nullish() })
  .nullish()
  .transform((value) => value ?? {});
const choicesShape = z.array(z.looseObject({ delta, finish_reason: z.unknown().optional() }));
type Choices = z.infer<typeof choicesShape>;

/**
 * The id, time and model that all steps of an answer share, taken from the first chunk with an id. `opened` says
 * whether the role was sent.
 */
export type AnswerIdentity = { id?: string; created: number; model: string; opened?: boolean };

const neverPattern = /(?!)/;
const encoder = new TextEncoder();

/**
 * Creates a reader for one step of a chat with server tools. The client sees all steps as a single answer, which has
 * one id, ends once, and contains no calls of our tools. Each chunk is parsed and serialized again.
 * @param options.assembly receives every chunk that the client gets
 * @param options.earlier usage of earlier steps, which is added to the usage that the client sees
 */
export function createStepReader(
  options: Step & {
    name: AnswerIdentity;
    wantsUsage: boolean;
    assembly?: ReturnType<typeof createAssembly>;
  },
): StepReader {
  const { name, last, wantsUsage } = options;
  const message: Record<string, unknown> = {};
  let usage: Record<string, unknown> | undefined;
  const readChunk = createChunkReader({ choices: 1, usageLimits: options.usageLimits });
  const callsTools = () => Array.isArray(message.tool_calls) && message.tool_calls.length > 0;

  function read(data: unknown): EventReading {
    const { chunk, corrected: _, ...reading } = readChunk(data);
    if (!chunk) return reading;
    const { success, data: choices } = choicesShape.safeParse(chunk.choices ?? []);
    // A message without a delta is a whole answer, unless deltas came before. MiniMax repeats the whole message in its
    // last chunk.
    const isWhole = Object.keys(message).length === 0 && choices?.some((choice) => choice.message);
    if (!success || isWhole) return { ...reading, action: "fail" };
    if (name.id === undefined && chunk.id) {
      Object.assign(name, { id: chunk.id, created: chunk.created ?? 0, model: chunk.model ?? name.model });
    }
    usage = chooseUsage(usage, chunk);
    if (reading.usageIsFinal) return { ...reading, action: "drop" };
    for (const choice of choices) mergeDelta(message, choice.delta);
    const shown = choices.flatMap(withoutTools).flatMap(sendRoleOnce);
    return { ...reading, action: shown.length > 0 ? event({ ...chunk, choices: shown }) : "drop" };
  }

  /**
   * Removes the tool calls, which only the gateway needs, and the finish reason of a step that another one follows. A
   * provider may call tools even on the last step, where the request disables them.
   */
  function withoutTools(choice: Choices[number]): Choices {
    const { tool_calls, ...rest } = choice.delta;
    const ends = isFinishReason(choice.finish_reason);
    if (ends && last) return [{ ...choice, delta: rest, finish_reason: replaceToolCallFinish(choice.finish_reason) }];
    if (ends && callsTools()) return hasContent(rest) ? [{ ...choice, delta: rest, finish_reason: null }] : [];
    const opens = "role" in rest;
    return tool_calls && !opens && !hasContent(rest) ? [] : [{ ...choice, delta: rest }];
  }

  /** Sends the role only once, at the beginning, as standard clients require. */
  function sendRoleOnce(choice: Choices[number]): Choices {
    const { role, ...rest } = choice.delta;
    if (!name.opened) {
      name.opened = true;
      return [{ ...choice, delta: { role: role ?? "assistant", ...rest } }];
    }
    const isOpening =
      role !== undefined && !isFinishReason(choice.finish_reason) && !rest.tool_calls && !hasContent(rest);
    return isOpening ? [] : [{ ...choice, delta: rest }];
  }

  function event({ usage, ...chunk }: Chunk): Uint8Array {
    const { id = chunk.id, created, model } = name;
    const shown = { ...chunk, id, created, model };
    options.assembly?.take(shown);
    return encoder.encode(`data: ${JSON.stringify(shown)}\n\n`);
  }

  const reader = createStreamReader({
    // These two patterns match nothing, so every event is parsed.
    content: neverPattern,
    mustParse: neverPattern,
    output: outputTexts,
    read,
    completion: (platform) =>
      completedEvent({
        ...name,
        id: name.id ?? "",
        wantsUsage,
        usage: addUsage(usage, options.earlier, chatUsageNames),
        platform,
      }),
  });
  return {
    ...reader,
    answer: options.assembly?.answer,
    turn: () => readTurn(wholeMessage(message)),
  };
}

function hasContent(fields: Record<string, unknown>): boolean {
  return Object.values(fields).some((value) => value !== null && value !== undefined && value !== "");
}
