import { z } from "zod";
import { beginEvents } from "../answers/first-event.ts";
import { createStreamReader, type Reading, type StreamReader } from "../answers/stream-reader.ts";
import type { Step } from "../tools/tool-loop.ts";
import { addUsage, responseUsageNames } from "../usage/total-usage.ts";
import { failedEvent } from "./errors.ts";
import {
  completion,
  endEvents,
  failureEvent,
  notStored,
  outputTexts,
  readOther,
  readResponseUsage,
  saidInResponse,
  writeEvent,
} from "./events.ts";
import { identityOf, type ResponseProgress } from "./progress.ts";

const eventShape = z.looseObject({
  type: z.string().catch(""),
  output_index: z.number().int().min(0).optional(),
  item: z.looseObject({ type: z.string() }).optional(),
  response: z.looseObject({ id: z.unknown(), created_at: z.unknown(), usage: z.unknown().optional() }).optional(),
});
type Event = z.infer<typeof eventShape>;

/** The state that the steps of one streamed response share. */
export type Conversation = {
  progress: ResponseProgress;
  nextIndex: number;
  nextSequence: number;
  /** Items of earlier steps, which the last event repeats. */
  shown: object[];
};

/** Returns whether an item of this type is a call of one of our tools, which only the gateway needs. */
export function isHidden(type: string | undefined): boolean {
  return type === "function_call";
}

const nothing = /(?!)/;

/**
 * Creates a reader for one step of a response with server tools. The client sees all steps as one response with
 * continuous numbering. Each event is parsed and serialized again.
 * The client doesn't see calls of our tools. A provider may call tools even on the last step, where the request disables
 * them.
 */
export function createStepReader(
  options: Step & { conversation: Conversation },
): StreamReader & { response: () => unknown } {
  const { conversation, first } = options;
  const { progress } = conversation;
  const indexes = new Map<number, number | undefined>();
  let ended: Event | undefined;

  function read(data: unknown): Reading {
    const { success, data: event } = eventShape.safeParse(data);
    if (!success) return { fate: "fail" };
    const other = readOther(event);
    if (other) return other;
    const usage = readResponseUsage(event.response, options.usageLimits);
    if (event.type === failureEvent) return { fate: "fail", usage, usageIsFinal: true, ending: "error" };
    if (endEvents.has(event.type)) {
      ended = event;
      return { fate: "done", usage, usageIsFinal: true, finished: true };
    }
    if (beginEvents.has(event.type)) {
      const response = event.response && { ...event.response, ...notStored };
      progress.response ??= response;
      return { fate: first && !progress.isOurs ? written({ ...event, response }) : "drop" };
    }
    if (event.output_index === undefined) return { fate: written(event), content: true };
    const output_index = shownIndex(event.output_index, event.item);
    return { fate: output_index === undefined ? "drop" : written({ ...event, output_index }), content: true };
  }

  /** Returns the client's index for an item, or undefined if the client does not see the item. */
  function shownIndex(index: number, item: Event["item"]): number | undefined {
    if (!indexes.has(index)) {
      indexes.set(index, isHidden(item?.type) ? undefined : conversation.nextIndex++);
    }
    return indexes.get(index);
  }

  function written(event: Event): Uint8Array {
    const counted = { ...event, sequence_number: conversation.nextSequence++ };
    return writeEvent(counted);
  }

  function wholeResponse(): Record<string, unknown> | undefined {
    const { response } = ended ?? {};
    if (!response) return undefined;
    const own: unknown[] = Array.isArray(response.output) ? response.output : [];
    const output = own.filter((item) => !isHidden((item as Event["item"])?.type));
    const usage = addUsage(response.usage, options.earlier, responseUsageNames);
    return { ...response, ...identityOf(progress), output: [...conversation.shown, ...output], usage };
  }

  const reader = createStreamReader({
    // These patterns match nothing, so every event is parsed.
    content: nothing,
    telling: nothing,
    output: outputTexts,
    read,
    completion(platform) {
      const sequence_number = conversation.nextSequence;
      return completion(ended && { ...ended, sequence_number, response: wholeResponse() }, platform);
    },
  });
  return {
    ...reader,
    response: () => ended?.response,
    failure: (error, requestId) =>
      failedEvent(error, requestId, { response: progress.response, events: conversation.nextSequence }),
    answer() {
      const value = wholeResponse();
      return value && { value, said: () => saidInResponse(value) };
    },
  };
}
