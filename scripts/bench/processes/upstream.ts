import { createHash } from "node:crypto";
import { createServer, type Socket } from "node:net";
import { z } from "zod";
import {
  bodyChunk,
  chatResponse,
  closingEvents,
  contentEvent,
  pacedChunks,
  paceMs,
  streamEnd,
  streamHead,
  wholeResponse,
} from "../upstream/answers.ts";
import { createRequestReader, type WireRequest } from "../upstream/request-reader.ts";

/**
 * The bench's model provider, which listens on PORT. It serves OpenAI's chat completions with identical answers and
 * evenly paced streams. It implements HTTP itself, to leave as much CPU time as possible to the measured servers. `GET
 * /calls` returns its counts.
 */
const host = "127.0.0.1";

const streamRequest = z.looseObject({
  messages: z.array(z.looseObject({ content: z.string() })).min(1),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
});

let answered = 0;
const streams = new Map<string, { sha256: string; chunks: number; end: "open" | "whole" | "cancelled" }>();

function answer(socket: Socket, { method, path, body }: WireRequest): void {
  if (method === "GET") {
    socket.write(wholeResponse(JSON.stringify({ answered, streams: Object.fromEntries(streams) })));
    return;
  }
  if (!path.endsWith("/chat/completions")) {
    socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    return;
  }
  answered += 1;
  if (!body.includes('"stream":true')) socket.write(chatResponse);
  else writeStream(socket, streamRequest.parse(JSON.parse(body.toString())));
}

/**
 * Writes a stream at its pace and records it under the text of the last message. Computes each chunk's due time from
 * the stream's start. Node keeps timers with equal intervals in one list, so chunks of all streams would otherwise soon
 * be due at the same time.
 */
function writeStream(socket: Socket, { messages, stream_options }: z.infer<typeof streamRequest>): void {
  const record = { sha256: "", chunks: 0, end: "open" as "open" | "whole" | "cancelled" };
  streams.set(messages.at(-1)?.content ?? "", record);
  const hash = createHash("sha256");
  socket.write(streamHead);
  const startedAt = performance.now();
  let timer: NodeJS.Timeout;
  const close = (end: "whole" | "cancelled") => {
    clearTimeout(timer);
    socket.off("close", leave);
    record.sha256 = hash.digest("hex");
    record.end = end;
  };
  const leave = () => close("cancelled");
  const writeNext = () => {
    if (record.chunks === pacedChunks) {
      for (const event of closingEvents(stream_options?.include_usage === true)) socket.write(bodyChunk(event));
      socket.write(streamEnd);
      return close("whole");
    }
    const event = contentEvent(process.hrtime.bigint());
    socket.write(bodyChunk(event));
    hash.update(event);
    record.chunks += 1;
    timer = setTimeout(writeNext, startedAt + record.chunks * paceMs - performance.now());
  };
  socket.once("close", leave);
  writeNext();
}

createServer((socket) => {
  socket.setNoDelay();
  socket.on("error", () => socket.destroy());
  socket.on(
    "data",
    createRequestReader((request) => answer(socket, request)),
  );
}).listen(Number(process.env.PORT), host, () => process.stdout.write("ready\n"));
