import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Behaviour } from "./behaviours.ts";
import { failureResponse, midwayError } from "./errors.ts";
import { cutConnection, type StreamPiece, sseEvent, untilDisconnected, writeEvents } from "./event-stream.ts";
import type { Truth } from "./truth-log.ts";
import type { Usage } from "./usage.ts";

/** The content of a response, as stream events or as one body. */
export type Answer = { pieces: StreamPiece[] } | { body: unknown; usage: Usage };

type FailureStatus = Extract<Behaviour["failure"], number | "full">;
/**
 * How an API reports failures: `failure` returns an error response, and `midwayError` is the event that a stream sends
 * if it fails midway.
 */
type Dialect = { failure: (status: FailureStatus) => Response; midwayError: string };
export const openaiDialect: Dialect = { failure: failureResponse, midwayError: sseEvent(midwayError) };

/**
 * Sends a response as the model's behaviour defines, including simulated failures, and completes the truth log's entry.
 */
export async function giveAnswer(
  outgoing: ServerResponse,
  {
    behaviour,
    truth,
    dialect = openaiDialect,
    answer,
  }: { behaviour: Behaviour; truth: Truth; dialect?: Dialect; answer: () => Answer },
): Promise<Response> {
  const disconnected = disconnectSignal(outgoing, truth);
  try {
    if (behaviour.firstByteMs > 0) await sleep(behaviour.firstByteMs, undefined, { signal: disconnected });
    if (behaviour.failure) return await fail(behaviour.failure, { outgoing, disconnected, dialect });
    const output = answer();
    if ("pieces" in output)
      await writeEvents(outgoing, output.pieces, { behaviour, truth, disconnected, midwayError: dialect.midwayError });
    else await sendBody(outgoing, output, { behaviour, truth, disconnected });
  } catch (error) {
    if (!disconnected.aborted) throw error;
  }
  return RESPONSE_ALREADY_SENT;
}

/** Returns a signal that aborts when a client disconnects before its response has ended. */
function disconnectSignal(outgoing: ServerResponse, truth: Truth): AbortSignal {
  const controller = new AbortController();
  const onClose = () => {
    truth.endedAt = new Date().toISOString();
    truth.status = outgoing.headersSent ? outgoing.statusCode : null;
    if (outgoing.writableFinished) return;
    truth.aborted = outgoing.errored === null;
    controller.abort();
  };
  if (outgoing.closed) onClose();
  else outgoing.once("close", onClose);
  return controller.signal;
}

async function fail(
  failure: NonNullable<Behaviour["failure"]>,
  { outgoing, disconnected, dialect }: { outgoing: ServerResponse; disconnected: AbortSignal; dialect: Dialect },
): Promise<Response> {
  if (failure === "redirect") return new Response(null, { status: 302, headers: { location: "/v1/models" } });
  if (failure === "reset") cutConnection(outgoing);
  else if (failure === "hang") await untilDisconnected(disconnected);
  else return dialect.failure(failure);
  return RESPONSE_ALREADY_SENT;
}

async function sendBody(
  outgoing: ServerResponse,
  { body, usage }: { body: unknown; usage: Usage },
  { behaviour, truth, disconnected }: { behaviour: Behaviour; truth: Truth; disconnected: AbortSignal },
): Promise<void> {
  truth.usage = usage;
  truth.usageReported = behaviour.usage !== "none" && behaviour.midway === undefined;
  const text = behaviour.midway === "garbage" ? "<html>no JSON at all" : JSON.stringify(body);
  outgoing.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  if (behaviour.midway !== "cut" && behaviour.midway !== "stall") {
    outgoing.end(text);
    return;
  }
  outgoing.write(text.slice(0, text.length / 2));
  if (behaviour.midway === "stall") await untilDisconnected(disconnected);
  cutConnection(outgoing);
}
