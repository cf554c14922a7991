import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Behaviour } from "./behaviours.ts";
import { chatChunks, usageChunk } from "./chat-chunks.ts";
import type { Completion } from "./completion.ts";
import { midwayError } from "./errors.ts";
import type { Truth } from "./truth-log.ts";
import { completionUsage } from "./usage.ts";

export type StreamOptions = { behaviour: Behaviour; includeUsage: boolean; truth: Truth; left: AbortSignal };

/**
 * Writes an answer as server-sent events, at the pace and with the mishaps of its behaviour. Ends early without a
 * word when the client has left.
 */
export async function streamCompletion(
  outgoing: ServerResponse,
  completion: Completion,
  { behaviour, includeUsage, truth, left }: StreamOptions,
): Promise<void> {
  const chunks = chatChunks(completion);
  const half = Math.floor(chunks.length / 2);
  const write = async (text: string) => {
    left.throwIfAborted();
    if (!outgoing.write(text)) await once(outgoing, "drain", { signal: left });
  };
  outgoing.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  for (const [index, { data, usage }] of chunks.entries()) {
    if (index > 0 && behaviour.paceMs > 0) await sleep(behaviour.paceMs, undefined, { signal: left });
    if (index === half && behaviour.midway === "cut") return cutConnection(outgoing);
    if (index === half && behaviour.midway === "stall") await untilLeft(left);
    if (index === half && behaviour.midway === "garbage")
      await write('data: {"choices": [oops\u0000\n\nno field at all\n\n');
    if (index === half && behaviour.midway === "error") return void outgoing.end(event(midwayError));
    truth.usage = usage;
    await write(event({ ...data, ...usageOnChunk(behaviour, includeUsage, usage) }));
  }
  truth.usage = completion.usage;
  if (includeUsage && behaviour.usage !== "none" && behaviour.usage !== "cumulative") {
    const zero = { input: 0, cachedInput: 0, output: 0, reasoning: 0 };
    const stated = behaviour.usage === "zero" ? { ...completion, usage: zero } : completion;
    await write(event(usageChunk(stated)));
    if (behaviour.usage === "twice") await write(event(usageChunk(stated)));
    truth.usageReported = true;
  }
  await write("data: [DONE]\n\n");
  outgoing.end();
}

/** Breaks the connection off, and leaves a trace that it was us and not the client. */
export function cutConnection(outgoing: ServerResponse): void {
  outgoing.destroy(new Error("cut by the demo"));
}

/** Waits for the client to leave. */
export async function untilLeft(left: AbortSignal): Promise<void> {
  if (!left.aborted) await once(left, "abort");
}

function usageOnChunk(behaviour: Behaviour, includeUsage: boolean, usage: Completion["usage"]) {
  if (behaviour.usage === "cumulative") return { usage: completionUsage(usage) };
  return includeUsage && behaviour.usage !== "none" ? { usage: null } : {};
}

function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
