import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Behaviour } from "./behaviours.ts";
import type { Truth } from "./truth-log.ts";
import type { Usage } from "./usage.ts";

/** An event as written, the usage so far, and whether the event reports the usage to the client. */
export type StreamPiece = { text: string; usage: Usage; reportsUsage?: boolean };

export type StreamOptions = { behaviour: Behaviour; truth: Truth; disconnected: AbortSignal; midwayError: string };

/**
 * Writes server-sent events with the delays and failures that the behaviour sets. Records the usage so far in `truth`.
 * @throws AbortError if the client has disconnected
 */
export async function writeEvents(
  outgoing: ServerResponse,
  pieces: readonly StreamPiece[],
  { behaviour, truth, disconnected, midwayError }: StreamOptions,
): Promise<void> {
  const half = Math.floor(pieces.length / 2);
  const write = async (text: string) => {
    disconnected.throwIfAborted();
    if (!outgoing.write(text)) await once(outgoing, "drain", { signal: disconnected });
  };
  outgoing.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  for (const [index, { text, usage, reportsUsage }] of pieces.entries()) {
    if (index > 0 && behaviour.paceMs > 0) await sleep(behaviour.paceMs, undefined, { signal: disconnected });
    if (index === half && behaviour.midway === "cut") return cutConnection(outgoing);
    if (index === half && behaviour.midway === "stall") await untilDisconnected(disconnected);
    if (index === half && behaviour.midway === "garbage")
      await write('data: {"choices": [oops\u0000\n\nno field at all\n\n');
    if (index === half && behaviour.midway === "error") return void outgoing.end(midwayError);
    disconnected.throwIfAborted();
    truth.usage = usage;
    await write(text);
    truth.usageReported ||= reportsUsage === true;
  }
  outgoing.end();
}

/** Formats an event with JSON data. */
export function sseEvent(data: unknown, name?: string): string {
  return `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** Breaks the connection with an error, so that this does not count as a client disconnecting. */
export function cutConnection(outgoing: ServerResponse): void {
  outgoing.destroy(new Error("cut by the demo"));
}

/** Waits until the client disconnects. */
export async function untilDisconnected(disconnected: AbortSignal): Promise<void> {
  if (!disconnected.aborted) await once(disconnected, "abort");
}
