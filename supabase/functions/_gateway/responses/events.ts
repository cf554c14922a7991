import { z } from "zod";
import { reportsError } from "../answers/error-events.ts";
import { responseBeginEvents } from "../answers/first-event.ts";
import { createStreamReader, type EventReading, type StreamReader } from "../answers/stream-reader.ts";
import type { OutputTexts } from "../structured/answer-schema.ts";
import { readCompletionUsage, readTier } from "../usage/read-usage.ts";
import type { StatedUsage, UsageLimits } from "../usage/usage.ts";
import { failedEvent } from "./errors.ts";
import { createProgress, getResponseIdentity, type ResponseProgress } from "./progress.ts";

const eventShape = z.looseObject({
  type: z.string().catch(""),
  response: z.looseObject({ usage: z.unknown().optional() }).optional(),
});
export const endEvents = new Set(["response.completed", "response.incomplete"]);
export const failureEvent = "response.failed";

/** The member by which each response states that nothing is stored. It replaces what the provider states. */
export const notStored = { store: false } as const;

/** Returns whether a provider's response does not state that it is not stored. */
export function mayBeStored(response: Record<string, unknown>): boolean {
  return response.store !== false;
}

/** Writes an event as the client's stream has it. */
export function writeEvent(event: { type: string; [member: string]: unknown }): Uint8Array {
  return encoder.encode(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
/** Matches the sequence number of each event. A quote inside a text has a backslash before it. */
const sequenceNumber = /^(data:[^\r\n]*?(?<!\\)"sequence_number"\s*:\s*)(\d+)/gm;

const content = /^(?:event: ?response\.[\w.]+(?:\r?\n|\r))?data: ?\{.*?"type": ?"response\./s;
const mustParsePattern = /"type"\s*:\s*"(?:response\.(?:completed|incomplete|failed)|error)"|\[DONE\]/;
/** Matches the output texts of an event. */
export const outputTexts = /"delta"\s*:\s*"/g;

/**
 * Members that show that an event without a `type` is a whole response, a chat chunk, or an event whose type is stated
 * elsewhere.
 */
const misplacedMembers = ["output", "choices", "response", "item", "delta"];

/**
 * Reads an event that is not a response event. Standard clients don't know such events. Returns undefined for response
 * events.
 */
export function readOther(event: { type: string }): EventReading | undefined {
  if (event.type.startsWith("response.")) return undefined;
  const isMisplaced = event.type === "" && misplacedMembers.some((member) => member in event);
  return { action: isMisplaced || reportsError(event) ? "fail" : "drop" };
}

/** Reads the usage that a response states. @returns undefined if the usage is too incomplete to base a charge on */
export function readResponseUsage(
  response: Record<string, unknown> | undefined,
  limits: UsageLimits,
): StatedUsage | undefined {
  const usage = readCompletionUsage(response?.usage, limits);
  const servedTier = response && readTier(response);
  return usage && servedTier !== undefined ? { ...usage, servedTier } : usage;
}

/**
 * Creates a reader for a stream of response events. It holds back the provider's last event, which contains the whole
 * response and its usage, until the run has ended. Then it sends the event with `platform` added, followed by `[DONE]`.
 */
export function createResponsesReader({
  usageLimits,
  progress = createProgress(),
}: {
  usageLimits: UsageLimits;
  /** The progress of the client's stream. Absent if no client gets what the reader reads. */
  progress?: ResponseProgress | undefined;
}): StreamReader {
  let completed: z.infer<typeof eventShape> | undefined;
  let beginnings = 0;
  /** The number of keepalives, and of the provider's events in whose place they came. */
  let keepalives = 0;
  let replaced = 0;

  function read(data: unknown): EventReading {
    const { success, data: event } = eventShape.safeParse(data);
    if (!success) return { action: "fail" };
    const other = readOther(event);
    if (other) return other;
    const usage = readResponseUsage(event.response, usageLimits);
    if (event.type === failureEvent) {
      return { action: "fail", usage, usageIsFinal: true, ending: "error" };
    }
    if (responseBeginEvents.has(event.type)) {
      if (progress.isOurs) {
        replaced += 1;
        return { action: "drop" };
      }
      const response = event.response && { ...event.response, ...notStored };
      progress.response ??= response;
      beginnings += 1;
      const isStated = !event.response || !mayBeStored(event.response);
      return { action: isStated ? "pass" : writeEvent({ ...event, response }) };
    }
    if (!endEvents.has(event.type)) return { action: "pass", content: true };
    completed = progress.isOurs
      ? { ...event, response: { ...event.response, ...getResponseIdentity(progress) } }
      : event;
    return { action: "done", usage, usageIsFinal: true, finished: true };
  }

  const reader = createStreamReader({
    content,
    mustParse: mustParsePattern,
    output: outputTexts,
    read,
    completion: (platform) => createCompletionEvent(completed && renumber(completed), platform),
  });
  function renumber(event: z.infer<typeof eventShape>): z.infer<typeof eventShape> {
    const { sequence_number: number } = event;
    return typeof number === "number" ? { ...event, sequence_number: number + keepalives - replaced } : event;
  }
  /** Makes the provider's sequence numbers continue those of the keepalives. */
  function shiftNumbers(events: Uint8Array[]): Uint8Array[] {
    const shift = keepalives - replaced;
    if (shift === 0) return events;
    const replace = (_: string, before: string, number: string) => `${before}${Number(number) + shift}`;
    return events.map((bytes) => encoder.encode(decoder.decode(bytes).replace(sequenceNumber, replace)));
  }
  const sequence = () => keepalives + beginnings + reader.facts.events;
  progress.nextSequence = () => {
    keepalives += 1;
    return sequence() - 1;
  };
  return {
    ...reader,
    push: (bytes) => shiftNumbers(reader.push(bytes)),
    end: () => shiftNumbers(reader.end()),
    failure: (error, requestId) => failedEvent(error, requestId, { response: progress.response, events: sequence() }),
    answer() {
      const value = completed?.response;
      return value && { value, texts: () => readResponseTexts(value) };
    },
  };
}

/**
 * Adds `platform` both to the event, where chat streams have it, and to the response inside, where non-streamed
 * responses have it.
 */
export function createCompletionEvent(
  event: z.infer<typeof eventShape> | undefined,
  platform: Record<string, unknown>,
): string {
  if (!event) return "data: [DONE]\n\n";
  const data = { ...event, response: { ...event.response, ...notStored, platform }, platform };
  return `event: ${event.type}\ndata: ${JSON.stringify(data)}\n\ndata: [DONE]\n\n`;
}

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const response = z.looseObject({
  output: z.array(z.looseObject({ type: z.string(), content: z.array(part).nullish().catch(undefined) })),
});

const toolCallTypes = new Set(["function_call", "custom_tool_call", "tool_search_call"]);

/** Returns the texts of a response's last message, or none if the response calls functions. */
export function readResponseTexts(value: unknown): OutputTexts {
  const { output } = response.safeParse(value).data ?? { output: [] };
  if (output.some(({ type }) => toolCallTypes.has(type))) return [];
  const content = output.findLast(({ type }) => type === "message")?.content;
  if (!content) return [null];
  if (content.some(({ type }) => type === "refusal")) return [null];
  return [content.map(({ text = "" }) => text).join("")];
}
