import { z } from "zod";
import { hasError, tellsError } from "../answers/error-events.ts";
import type { Reading } from "../answers/stream-reader.ts";
import { isObject } from "../structured/canonical.ts";
import { readTier } from "../usage/read-usage.ts";
import type { UsageLimits } from "../usage/usage.ts";
import { createToolCallNumbering } from "./tool-calls.ts";
import { readChatUsage } from "./usage.ts";

const chunkShape = z.looseObject({
  id: z.string().optional().catch(undefined),
  created: z.number().optional().catch(undefined),
  model: z.string().optional().catch(undefined),
  choices: z.array(z.unknown()).nullish(),
});
export type Chunk = z.infer<typeof chunkShape>;

/** What an event says about its stream; its chunk if the stream continues; and whether its data was corrected in place. */
type ReadChunk = Reading & { chunk?: Chunk; corrected?: boolean };

/**
 * Reads usage, errors and finish reasons of a stream's chunks.
 * @param choices how many were asked for
 */
export function createChunkReader({
  choices: asked,
  usageLimits,
}: {
  choices: number;
  usageLimits: UsageLimits;
}): (data: unknown) => ReadChunk {
  const finished = new Set<unknown>();
  const numberToolCalls = createToolCallNumbering();
  return (data) => {
    const { success, data: chunk } = chunkShape.safeParse(data);
    if (!success) return { fate: "fail" };
    const { choices } = chunk;
    const usage = readChatUsage(chunk, usageLimits);
    if (choices ? hasError(chunk) : tellsError(chunk)) return { fate: "fail", usage, usageIsFinal: true };
    const statesUsage = usage !== undefined || isPresent(chunk.usage);
    // Some send events of their own, such as {"type":"ping"}, at which stock clients fail.
    if (!choices && !statesUsage) return { fate: "drop" };
    for (const choice of choices ?? []) {
      if (isObject(choice) && isFinish(choice.finish_reason)) finished.add(choice.index ?? 0);
    }
    const usageIsFinal = !choices?.length && statesUsage;
    return {
      fate: "pass",
      chunk,
      corrected: numberToolCalls(choices ?? []),
      usage,
      usageIsFinal,
      servedTier: readTier(chunk),
      finished: finished.size >= asked,
      // Azure's first chunk has the prompt's filter results only.
      content: Boolean(choices?.length),
    };
  };
}

/** Whether a finish reason ends its choice. Any text does, apart from "null", which DashScope sends until the end. */
export function isFinish(reason: unknown): boolean {
  return Boolean(reason) && reason !== "null";
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}
