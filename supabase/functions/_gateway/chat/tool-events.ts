import { z } from "zod";
import { createStreamReader, type Reading } from "../answers/stream-reader.ts";
import { addUsage, chatUsageNames } from "../runs/total-usage.ts";
import { readCompletionUsage } from "../runs/usage.ts";
import type { Step, StepReader, ToolCall } from "../tools/tool-loop.ts";
import type { createAssembly } from "./assembly.ts";
import { completedEvent, outputTexts } from "./events.ts";
import { assistantTurn } from "./message.ts";

const delta = z.looseObject({
  content: z.string().nullish(),
  tool_calls: z
    .array(
      z.looseObject({
        index: z.number().int().min(0).optional(),
        id: z.string().nullish(),
        function: z.looseObject({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
      }),
    )
    .nullish(),
});
const chunkShape = z.looseObject({
  id: z.string().optional(),
  created: z.number().optional(),
  model: z.string().optional(),
  choices: z.array(z.looseObject({ delta, finish_reason: z.string().nullish() })),
  usage: z.unknown().optional(),
  error: z.unknown().optional(),
});
type Chunk = z.infer<typeof chunkShape>;

/** How an answer of several steps is called: as its first chunk was. */
export type AnswerName = { id?: string; created: number; model: string };

const nothing = /(?!)/;
const encoder = new TextEncoder();

/**
 * Reads one step of a chat with server tools. The client sees one answer: its text as it comes, under one name, without
 * the calls of our tools, and one end. Each chunk is read, and written anew.
 * @param options.last there is no further step: what the model says stands, calls of tools included
 * @param options.assembly is shown every chunk that the client gets
 * @param options.earlier what the steps before used, which the client's usage chunk includes
 */
export function createStepReader(
  options: Step & {
    name: AnswerName;
    keepUsageChunk: boolean;
    assembly?: ReturnType<typeof createAssembly>;
  },
): StepReader {
  const { name, first, last } = options;
  /** By their places, which are the provider's to choose: a list with a hole of millions would hold up everybody. */
  const toolCalls = new Map<number, ToolCall>();
  let content: string | null = null;

  function read(data: unknown): Reading {
    const { success, data: chunk } = chunkShape.safeParse(data);
    if (!success) return { fate: "fail" };
    const usage = readCompletionUsage(chunk.usage, options.usageBound);
    if (chunk.error !== undefined && chunk.error !== null) return { fate: "fail", usage, usageIsFinal: true };
    if (name.id === undefined && chunk.id) {
      Object.assign(name, { id: chunk.id, created: chunk.created ?? 0, model: chunk.model ?? name.model });
    }
    const usageIsFinal = chunk.choices.length === 0 && chunk.usage !== undefined && chunk.usage !== null;
    if (usageIsFinal) {
      const passes = options.keepUsageChunk && (last || toolCalls.size === 0);
      const total = { ...chunk, usage: addUsage(chunk.usage, options.earlier, chatUsageNames) };
      return { fate: passes ? event(total) : "drop", usage, usageIsFinal };
    }
    for (const choice of chunk.choices) learn(choice.delta);
    const kept = last ? chunk.choices : chunk.choices.flatMap(withoutTools);
    const shown = first ? kept : kept.flatMap(withoutOpening);
    return { fate: shown.length > 0 ? event({ ...chunk, choices: shown }) : "drop", usage, content: true };
  }

  function learn({ content: text, tool_calls }: z.infer<typeof delta>): void {
    if (text) content = (content ?? "") + text;
    for (const [position, part] of (tool_calls ?? []).entries()) {
      const index = part.index ?? position;
      const call = toolCalls.get(index) ?? { id: "", name: "", arguments: "" };
      if (part.id) call.id = part.id;
      if (part.function?.name) call.name += part.function.name;
      call.arguments += part.function?.arguments ?? "";
      toolCalls.set(index, call);
    }
  }

  function called(): ToolCall[] {
    return [...toolCalls].toSorted(([one], [other]) => one - other).map(([, call]) => call);
  }

  /** What is between the model and us: the calls, and the end that is none. */
  function withoutTools(choice: Chunk["choices"][number]): Chunk["choices"] {
    const { tool_calls, ...rest } = choice.delta;
    const ends = Boolean(choice.finish_reason);
    if (ends && toolCalls.size > 0) return hasText(rest) ? [{ ...choice, delta: rest, finish_reason: null }] : [];
    const opens = "role" in rest;
    return tool_calls && !opens && !hasText(rest) ? [] : [{ ...choice, delta: rest }];
  }

  function event(chunk: Chunk): Uint8Array {
    const { id = chunk.id, created, model } = name;
    const shown = { ...chunk, id, created, model };
    options.assembly?.take(shown);
    return encoder.encode(`data: ${JSON.stringify(shown)}\n\n`);
  }

  const reader = createStreamReader({
    // Every event is read.
    content: nothing,
    telling: nothing,
    output: outputTexts,
    read,
    completion: (platform) => completedEvent({ ...name, id: name.id ?? "", platform }),
  });
  return {
    ...reader,
    answer: options.assembly?.answer,
    turn: () => assistantTurn(content, called()),
  };
}

/** A client that has been told who speaks is not told again. */
function withoutOpening(choice: Chunk["choices"][number]): Chunk["choices"] {
  const { role, ...rest } = choice.delta;
  const opens = role !== undefined && !choice.finish_reason && !choice.delta.tool_calls && !hasText(rest);
  return opens ? [] : [{ ...choice, delta: rest }];
}

function hasText(fields: Record<string, unknown>): boolean {
  return Object.values(fields).some((value) => value !== null && value !== undefined && value !== "");
}
