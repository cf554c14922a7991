import { z } from "zod";
import { tellsError } from "../answers/error-events.ts";
import { createStreamReader, type Reading, type StreamReader } from "../answers/stream-reader.ts";
import { isObject } from "../structured/canonical.ts";
import { readMessageUsage } from "../usage/read-usage.ts";
import type { UsageLimits } from "../usage/usage.ts";
import type { MessageAssembly } from "./assembly.ts";

/** Events of Anthropic's streams, as far as they are read (https://platform.claude.com/docs/en/build-with-claude/streaming). */
const eventShape = z.looseObject({
  type: z.string().catch(""),
  message: z.looseObject({ usage: z.unknown().optional() }).optional(),
  delta: z.looseObject({ stop_reason: z.string().nullish().catch(undefined) }).optional(),
  usage: z.unknown().optional(),
});
type Event = z.infer<typeof eventShape>;

const content = /^(?:event: ?content_block_\w+(?:\r?\n|\r))?data: ?\{.*?"type": ?"content_block_/s;
const telling = /"type"\s*:\s*"(?:message_start|message_delta|message_stop|error|ping)"/;
/** Matches the texts of an event that count as output. Signatures don't count. */
const outputTexts = /"(?:text|thinking|partial_json)"\s*:\s*"/g;

type Members = Record<string, unknown>;

/**
 * Reads a streamed message as it passes through. Its last event is held until the run has ended, then sent with
 * `platform` in it: standard clients accept members that they don't know.
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
  let stopped: Event | undefined;

  function read(data: unknown): Reading {
    const { success, data: event } = eventShape.safeParse(data);
    if (!success) return { fate: "fail" };
    switch (event.type) {
      case "message_start": {
        // The few output tokens that the first event states belong to the text that follows.
        usage = { ...membersOf(event.message?.usage), output_tokens: 0 };
        return { fate: "pass", content: true, usage: readMessageUsage(usage, usageLimits) };
      }
      case "message_delta": {
        usage = updated(usage, membersOf(event.usage));
        const finished = typeof event.delta?.stop_reason === "string";
        return { fate: "pass", finished, usage: readMessageUsage(usage, usageLimits), usageIsFinal: finished };
      }
      case "message_stop":
        stopped = event;
        return { fate: "done" };
      case "error":
        return { fate: "fail" };
      default:
        if (event.type.startsWith("content_block_")) return { fate: "pass", content: true };
        return { fate: tellsError(event) ? "fail" : "pass" };
    }
  }

  const reader = createStreamReader({
    content,
    telling,
    output: outputTexts,
    read,
    ...(assembly ? { observe: assembly.add } : {}),
    completion: (platform) => stopEvent({ type: "message_stop", ...stopped, platform }),
  });
  return { ...reader, ...(assembly ? { answer: assembly.message } : {}) };
}

/** Returns the last event of a streamed message. */
export function stopEvent(data: Members): string {
  return `event: message_stop\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Updates the usage. A later event counts the whole message; counts that it omits or sets to null stay. */
function updated(before: Members, later: Members): Members {
  return { ...before, ...Object.fromEntries(Object.entries(later).filter(([, value]) => value !== null)) };
}

function membersOf(value: unknown): Members {
  return isObject(value) ? value : {};
}
