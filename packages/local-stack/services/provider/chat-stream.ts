import type { Behaviour } from "./behaviours.ts";
import { chatChunks, usageChunk } from "./chat-chunks.ts";
import type { Completion } from "./completion.ts";
import { type StreamPiece, sseEvent } from "./event-stream.ts";
import { completionUsage, noUsage } from "./usage.ts";

/** Returns the events of a streamed chat: its chunks, the usage if requested, and the final `[DONE]`. */
export function chatEvents(
  completion: Completion,
  { behaviour, includeUsage }: { behaviour: Behaviour; includeUsage: boolean },
): StreamPiece[] {
  const { usage } = completion;
  const pieces: StreamPiece[] = chatChunks(completion).map((chunk) => {
    const reportedUsage = usageOnChunk(behaviour, includeUsage, chunk.usage);
    return { text: sseEvent({ ...chunk.data, ...reportedUsage }), usage: chunk.usage };
  });
  if (includeUsage && behaviour.usage !== "none" && behaviour.usage !== "cumulative") {
    const reportedUsage = behaviour.usage === "zero" ? { ...completion, usage: noUsage } : completion;
    const closing = { text: sseEvent(usageChunk(reportedUsage)), usage, reportsUsage: true };
    pieces.push(closing, ...(behaviour.usage === "twice" ? [closing] : []));
  }
  return [...pieces, { text: "data: [DONE]\n\n", usage }];
}

function usageOnChunk(behaviour: Behaviour, includeUsage: boolean, usage: Completion["usage"]) {
  if (behaviour.usage === "cumulative") return { usage: completionUsage(usage) };
  return includeUsage && behaviour.usage !== "none" ? { usage: null } : {};
}
