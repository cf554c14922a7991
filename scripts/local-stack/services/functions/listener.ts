import type { IncomingMessage, ServerResponse } from "node:http";
import type { FunctionHandler } from "./deno-api.ts";

/** Microtasks after which what is whole already has been read, and what is not yet is a stream. */
const turnsOfWhole = 8;
const json = "application/json";

/**
 * Serves a handler of Fetch requests on Node's HTTP server. The usual adapters take as long for a call as the rest of a
 * function does; this one makes a request once, with its body where that has come whole, and writes an answer that is
 * whole in one piece.
 * @param onError answers what the handler throws
 */
export function createListener(
  handle: FunctionHandler,
  onError: (error: unknown) => Response,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    // What is left of a body that nobody reads would hold up the connection's next request.
    outgoing.once("finish", () => {
      if (!incoming.complete) incoming.removeAllListeners("data").resume();
    });
    // By then as much of the body has been read as came with the head.
    process.nextTick(() => {
      let request: Request;
      try {
        request = requestOf(incoming, outgoing);
      } catch {
        outgoing.writeHead(400).end();
        return;
      }
      answer(handle, request)
        .catch(onError)
        .then((response) => write(response, outgoing))
        .catch(() => outgoing.destroy());
    });
  };
}

async function answer(handle: FunctionHandler, request: Request): Promise<Response> {
  return await handle(request);
}

/** @throws TypeError for what is no request by Fetch's rules */
function requestOf(incoming: IncomingMessage, outgoing: ServerResponse): Request {
  const { method = "GET", rawHeaders } = incoming;
  const headers: [string, string][] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.push([rawHeaders[at] ?? "", rawHeaders[at + 1] ?? ""]);
  const url = `http://localhost${incoming.url}`;
  const hasBody = method !== "GET" && method !== "HEAD";
  const init = { method, headers, body: hasBody ? bodyOf(incoming) : undefined, duplex: "half" as const };
  return new ClientRequest(url, init, outgoing);
}

/** A request whose signal tells that its client has left; made when it is asked for, which it seldom is. */
class ClientRequest extends Request {
  readonly #outgoing: ServerResponse;
  #leaving?: AbortController;

  constructor(url: string, init: RequestInit, outgoing: ServerResponse) {
    super(url, init);
    this.#outgoing = outgoing;
  }

  override get signal(): AbortSignal {
    if (!this.#leaving) {
      const leaving = new AbortController();
      const outgoing = this.#outgoing;
      const tell = () => outgoing.writableFinished || leaving.abort();
      if (outgoing.destroyed) tell();
      else outgoing.once("close", tell);
      this.#leaving = leaving;
    }
    return this.#leaving.signal;
  }
}

/** The body: its bytes where all of them are there, else as it comes. */
function bodyOf(incoming: IncomingMessage): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | undefined {
  if (!incoming.complete) return streamOf(incoming);
  const pieces: Buffer<ArrayBuffer>[] = [];
  // Deno gives a piece at a time, Node all of them together.
  for (let piece = incoming.read(); piece !== null; piece = incoming.read()) pieces.push(piece);
  return pieces.length > 1 ? Buffer.concat(pieces) : pieces[0];
}

/** The body as it comes, at its reader's pace; what comes once the reader has had enough is let go. */
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
      // A client that leaves in the middle is nobody's error any more.
      incoming.on("error", () => {}).resume();
    },
  });
}

type Reading = ReadableStreamReadResult<Uint8Array>;

async function write(response: Response, outgoing: ServerResponse): Promise<void> {
  const headers = headersOf(response);
  if (headers["content-type"] === json) {
    // Nobody reads JSON by halves: whole it takes a fifth of what its stream does, which to ask for its body would make.
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
  // The head leaves with what is there already.
  if (!first || first.done) outgoing.flushHeaders();
  else if (!outgoing.write(first.value)) await drained(outgoing);
  for (let reading = await next; !reading.done; reading = await reader.read()) {
    if (!outgoing.write(reading.value)) await drained(outgoing);
  }
  outgoing.end();
}

/** A response's headers. Their iterator makes the whole list anew for each of them. */
function headersOf({ headers }: Response): Record<string, string | string[]> {
  const record: Record<string, string | string[]> = {};
  headers.forEach((value, name) => {
    record[name] = value;
  });
  if ("set-cookie" in record) record["set-cookie"] = headers.getSetCookie();
  return record;
}

/** What is there already; undefined where it has yet to come. */
async function soon(reading: Promise<Reading>): Promise<Reading | undefined> {
  let result: Reading | undefined;
  reading.then(
    (read) => {
      result = read;
    },
    () => {},
  );
  for (let turn = 0; turn < turnsOfWhole && !result; turn++) await undefined;
  return result;
}

/** Waits for a client that is slower than what it is written, unless it has gone. */
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
