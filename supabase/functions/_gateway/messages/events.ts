import { z } from "zod";
import { reportsError } from "../answers/error-events.ts";
import { createStreamReader, type EventReading, type StreamReader } from "../answers/stream-reader.ts";
import { readMessageUsage } from "../usage/read-usage.ts";
import type { UsageLimits } from "../usage/usage.ts";
import { type MessageAssembly, readMembers } from "./assembly.ts";

/**
 * The members of Anthropic's stream events that the gateway reads
 * (https://platform.claude.com/docs/en/build-with-claude/streaming).
 */
const eventShape = z.looseObject({
  type: z.string().catch(""),
  message: z.looseObject({ usage: z.unknown().optional() }).optional(),
  delta: z.looseObject({ stop_reason: z.string().nullish().catch(undefined) }).optional(),
  usage: z.unknown().optional(),
});
type Event = z.infer<typeof eventShape>;

const content = /^(?:event: ?content_block_\w+(?:\r?\n|\r))?data: ?\{.*?"type": ?"content_block_/s;
const mustParsePattern = /"type"\s*:\s*"(?:message_start|message_delta|message_stop|error|ping)"/;
/** Matches the texts of an event that count as output. Signatures are not output. */
const outputTexts = /"(?:text|thinking|partial_json)"\s*:\s*"/g;

type Members = Record<string, unknown>;

/**
 * Creates a reader for a streamed message. It holds the last event back until the run has ended, and then sends the
 * event with `platform` added. Standard clients ignore unknown members.
 */
export function createMessagesReader({
  usageLimits,
  assembly,
}: {
  usageLimits: UsageLimits;
  /** Absent if the whole message is not needed. */
  assembly?: MessageAssembly | undefined;
}): StreamReader {
  let usage: Members = {};
  let stopEventData: Event | undefined;

  function read(data: unknown): EventReading {
    const { success, data: event } = eventShape.safeParse(data);
    if (!success) return { action: "fail" };
    switch (event.type) {
      case "message_start": {
        // Ignores the output tokens in the first event, because they count text that has not arrived yet.
        usage = { ...readMembers(event.message?.usage), output_tokens: 0 };
        return { action: "pass", content: true, usage: readMessageUsage(usage, usageLimits) };
      }
      case "message_delta": {
        usage = updateUsage(usage, readMembers(event.usage));
        const finished = typeof event.delta?.stop_reason === "string";
        const ending = event.delta?.stop_reason === "refusal" ? "refusal" : undefined;
        return {
          action: "pass",
          finished,
          usage: readMessageUsage(usage, usageLimits),
          usageIsFinal: finished,
          ending,
        };
      }
      case "message_stop":
        stopEventData = event;
        return { action: "done" };
      case "error":
        return { action: "fail" };
      default:
        if (event.type.startsWith("content_block_")) return { action: "pass", content: true };
        return { action: reportsError(event) ? "fail" : "pass" };
    }
  }

  const reader = createStreamReader({
    content,
    mustParse: mustParsePattern,
    output: outputTexts,
    read,
    ...(assembly ? { observe: assembly.add } : {}),
    completion: (platform) => stopEvent({ type: "message_stop", ...stopEventData, platform }),
  });
  return { ...reader, ...(assembly ? { answer: assembly.message } : {}) };
}

/** Returns the last event of a streamed message. */
export function stopEvent(data: Members): string {
  return `event: message_stop\ndata: ${JSON.stringify(data)}\n\n`;
}

/**
 * Replaces the usage with the cumulative counts of a later event. Keeps counts that the event omits or sets to null.
 */
function updateUsage(before: Members, later: Members): Members {
  return { ...before, ...Object.fromEntries(Object.entries(later).filter(([, value]) => value !== null)) };
}
