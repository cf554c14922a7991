import { z } from "zod";
import { responseBeginEvents } from "../answers/first-event.ts";
import { createStreamReader, type EventReading, type StreamReader } from "../answers/stream-reader.ts";
import type { Step } from "../tools/tool-loop.ts";
import { addUsage, responseUsageNames } from "../usage/total-usage.ts";
import { failedEvent } from "./errors.ts";
import {
  createCompletionEvent,
  endEvents,
  failureEvent,
  notStored,
  outputTexts,
  readOther,
  readResponseTexts,
  readResponseUsage,
  writeEvent,
} from "./events.ts";
import { getResponseIdentity, type ResponseProgress } from "./progress.ts";

const eventShape = z.looseObject({
  type: z.string().catch(""),
  output_index: z.number().int().min(0).optional(),
  item: z.looseObject({ type: z.string() }).optional(),
  response: z.looseObject({ id: z.unknown(), created_at: z.unknown(), usage: z.unknown().optional() }).optional(),
});
type Event = z.infer<typeof eventShape>;

/** The state that the steps of one streamed response share. */
export type SharedStepState = {
  progress: ResponseProgress;
  nextIndex: number;
  nextSequence: number;
  /** Items of earlier steps, which the last event repeats. */
  earlierItems: object[];
};

/** Returns whether an item of this type is a call of one of our tools, which only the gateway needs. */
export function isHidden(type: string | undefined): boolean {
  return type === "function_call";
}

const neverPattern = /(?!)/;

/**
 * Creates a reader for one step of a response with server tools. The client sees all steps as one response with
 * continuous numbering. Each event is parsed and serialized again.
 * The client doesn't see calls of our tools. A provider may call tools even on the last step, where the request disables
 * them.
 */
export function createStepReader(
  options: Step & { conversation: SharedStepState },
): StreamReader & { response: () => unknown } {
  const { conversation, first } = options;
  const { progress } = conversation;
  const indexes = new Map<number, number | undefined>();
  let completed: Event | undefined;

  function read(data: unknown): EventReading {
    const { success, data: event } = eventShape.safeParse(data);
    if (!success) return { action: "fail" };
    const other = readOther(event);
    if (other) return other;
    const usage = readResponseUsage(event.response, options.usageLimits);
    if (event.type === failureEvent) return { action: "fail", usage, usageIsFinal: true, ending: "error" };
    if (endEvents.has(event.type)) {
      completed = event;
      return { action: "done", usage, usageIsFinal: true, finished: true };
    }
    if (responseBeginEvents.has(event.type)) {
      const response = event.response && { ...event.response, ...notStored };
      progress.response ??= response;
      return { action: first && !progress.isOurs ? writeNumbered({ ...event, response }) : "drop" };
    }
    if (event.output_index === undefined) return { action: writeNumbered(event), content: true };
    const output_index = clientIndexOf(event.output_index, event.item);
    return { action: output_index === undefined ? "drop" : writeNumbered({ ...event, output_index }), content: true };
  }

  /** Returns the client's index for an item, or undefined if the client does not see the item. */
  function clientIndexOf(index: number, item: Event["item"]): number | undefined {
    if (!indexes.has(index)) {
      indexes.set(index, isHidden(item?.type) ? undefined : conversation.nextIndex++);
    }
    return indexes.get(index);
  }

  function writeNumbered(event: Event): Uint8Array {
    return writeEvent({ ...event, sequence_number: conversation.nextSequence++ });
  }

  function wholeResponse(): Record<string, unknown> | undefined {
    const { response } = completed ?? {};
    if (!response) return undefined;
    const own: unknown[] = Array.isArray(response.output) ? response.output : [];
    const output = own.filter((item) => !isHidden((item as Event["item"])?.type));
    const usage = addUsage(response.usage, options.earlier, responseUsageNames);
    return { ...response, ...getResponseIdentity(progress), output: [...conversation.earlierItems, ...output], usage };
  }

  const reader = createStreamReader({
    // These patterns match nothing, so every event is parsed.
    content: neverPattern,
    mustParse: neverPattern,
    output: outputTexts,
    read,
    completion(platform) {
      const sequence_number = conversation.nextSequence;
      return createCompletionEvent(completed && { ...completed, sequence_number, response: wholeResponse() }, platform);
    },
  });
  return {
    ...reader,
    response: () => completed?.response,
    failure: (error, requestId) =>
      failedEvent(error, requestId, { response: progress.response, events: conversation.nextSequence }),
    answer() {
      const value = wholeResponse();
      return value && { value, texts: () => readResponseTexts(value) };
    },
  };
}
