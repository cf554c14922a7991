import type { IncomingMessage, ServerResponse } from "node:http";

export type FetchHandler = (request: Request, info: { remoteAddress: string }) => Response | Promise<Response>;

/** How many microtasks to wait for each read of a response body. A body that is not complete by then is streamed. */
const maxMicrotaskTurns = 8;
const json = "application/json";

/**
 * Serves a handler of Fetch requests on Node's HTTP server. The usual adapters add as much time to a call as the rest
 * of a function takes. This one creates each request once, with its body if the body has arrived completely, and writes
 * a complete response in one step.
 * @param onError creates the response if the handler throws
 */
export function createListener(
  handle: FetchHandler,
  onError: (error: unknown) => Response,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    // The rest of an unread body would block the connection's next request.
    outgoing.once("finish", () => {
      if (!incoming.complete) incoming.removeAllListeners("data").resume();
    });
    // Handles the request one tick later, after Node has read the part of the body that arrived with the headers.
    process.nextTick(() => {
      let request: Request;
      try {
        request = requestOf(incoming, outgoing);
      } catch {
        outgoing.writeHead(400).end();
        return;
      }
      answer(handle, { request, remoteAddress: incoming.socket.remoteAddress ?? "" })
        .catch(onError)
        .then((response) => write(response, outgoing))
        .catch(() => outgoing.destroy());
    });
  };
}

async function answer(
  handle: FetchHandler,
  { request, remoteAddress }: { request: Request; remoteAddress: string },
): Promise<Response> {
  return await handle(request, { remoteAddress });
}

/** @throws TypeError if the request is invalid by Fetch's rules */
function requestOf(incoming: IncomingMessage, outgoing: ServerResponse): Request {
  const { method = "GET", rawHeaders } = incoming;
  const headers: [string, string][] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.push([rawHeaders[at] ?? "", rawHeaders[at + 1] ?? ""]);
  const url = `http://localhost${incoming.url}`;
  const hasBody = method !== "GET" && method !== "HEAD";
  const init = { method, headers, body: hasBody ? bodyOf(incoming) : undefined, duplex: "half" as const };
  return new ClientRequest(url, init, outgoing);
}

/** A request whose signal aborts when the client disconnects. The signal is created on first use, which is rare. */
class ClientRequest extends Request {
  readonly #outgoing: ServerResponse;
  #disconnect?: AbortController;

  constructor(url: string, init: RequestInit, outgoing: ServerResponse) {
    super(url, init);
    this.#outgoing = outgoing;
  }

  override get signal(): AbortSignal {
    if (!this.#disconnect) {
      const disconnect = new AbortController();
      const outgoing = this.#outgoing;
      const abortUnlessFinished = () => outgoing.writableFinished || disconnect.abort();
      if (outgoing.destroyed) abortUnlessFinished();
      else outgoing.once("close", abortUnlessFinished);
      this.#disconnect = disconnect;
    }
    return this.#disconnect.signal;
  }
}

/** Returns the body: its bytes if all of them have arrived, otherwise a stream. */
function bodyOf(incoming: IncomingMessage): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | undefined {
  if (!incoming.complete) return streamOf(incoming);
  const pieces: Buffer<ArrayBuffer>[] = [];
  // `read` returns one chunk at a time in Deno, and all chunks together in Node.
  for (let piece = incoming.read(); piece !== null; piece = incoming.read()) pieces.push(piece);
  return pieces.length > 1 ? Buffer.concat(pieces) : pieces[0];
}

/** Streams the body at its reader's pace, and discards what arrives after the reader cancels. */
function streamOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  let drop = () => {};
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const take = (bytes: Uint8Array) => {
        controller.enqueue(new Uint8Array(bytes));
        if ((controller.desiredSize ?? 0) <= 0) incoming.pause();
      };
      const finish = () => {
        drop();
        controller.close();
      };
      const fail = (error: Error) => {
        drop();
        controller.error(error);
      };
      drop = () => void incoming.off("data", take).off("end", finish).off("error", fail);
      incoming.on("data", take).once("end", finish).once("error", fail);
    },
    pull: () => void incoming.resume(),
    cancel() {
      drop();
      // A disconnect of the client after the reader has canceled is not an error.
      incoming.on("error", () => {}).resume();
    },
  });
}

type Reading = ReadableStreamReadResult<Uint8Array>;

async function write(response: Response, outgoing: ServerResponse): Promise<void> {
  const headers = headersOf(response);
  // An unbuffered response may take minutes and keeps its connection alive meanwhile.
  if (headers["content-type"] === json && headers["x-accel-buffering"] !== "no") {
    // JSON is otherwise read as text, which takes a fifth of the time of reading it as a stream through `body`.
    const text = await response.text();
    if (text !== "") headers["content-length"] = String(Buffer.byteLength(text));
    outgoing.writeHead(response.status, headers).end(text);
    return;
  }
  const reader = response.body?.getReader();
  if (!reader) {
    outgoing.writeHead(response.status, headers).end();
    return;
  }
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) reader.cancel().catch(() => {});
  });
  let next = reader.read();
  const first = await soon(next);
  if (first && !first.done) {
    next = reader.read();
    const second = await soon(next);
    if (second?.done) {
      headers["content-length"] = String(first.value.byteLength);
      outgoing.writeHead(response.status, headers).end(first.value);
      return;
    }
  }
  outgoing.writeHead(response.status, headers);
  // Sends the headers together with the first chunk, if that chunk has already arrived.
  if (!first || first.done) outgoing.flushHeaders();
  else if (!outgoing.write(first.value)) await drained(outgoing);
  for (let reading = await next; !reading.done; reading = await reader.read()) {
    if (!outgoing.write(reading.value)) await drained(outgoing);
  }
  outgoing.end();
}

/**
 * Collects a response's headers into a record. Uses `forEach`, because the iterator of `Headers` rebuilds the whole
 * list for each header.
 */
function headersOf({ headers }: Response): Record<string, string | string[]> {
  const record: Record<string, string | string[]> = {};
  headers.forEach((value, name) => {
    record[name] = value;
  });
  if ("set-cookie" in record) record["set-cookie"] = headers.getSetCookie();
  return record;
}

/** Returns the result if it is already available, otherwise undefined. */
async function soon(reading: Promise<Reading>): Promise<Reading | undefined> {
  let result: Reading | undefined;
  reading.then(
    (read) => {
      result = read;
    },
    () => {},
  );
  for (let turn = 0; turn < maxMicrotaskTurns && !result; turn++) await undefined;
  return result;
}

/** Waits for a slow client to read what was written, unless it disconnects. */
async function drained(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return;
  await new Promise<void>((resolve) => {
    const goOn = () => {
      outgoing.off("drain", goOn).off("close", goOn);
      resolve();
    };
    outgoing.on("drain", goOn).on("close", goOn);
  });
}
