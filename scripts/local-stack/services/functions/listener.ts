import type { IncomingMessage, ServerResponse } from "node:http";
import type { FunctionHandler } from "./deno-api.ts";

/** Microtasks after which what is whole already has been read, and what is not yet is a stream. */
const turnsOfWhole = 8;

/**
 * Serves a handler of Fetch requests on Node's HTTP server. The usual adapters take as long for a call as the rest of a
 * function does; this one makes a request once, whole, and writes an answer that is whole in one piece.
 * @param onError answers what the handler throws
 */
export function createListener(
  handle: FunctionHandler,
  onError: (error: unknown) => Response,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    const leaving = new AbortController();
    outgoing.once("close", () => {
      if (!outgoing.writableFinished) leaving.abort();
    });
    // What is left of a body that nobody reads would hold up the connection's next request.
    outgoing.once("finish", () => {
      if (!incoming.complete) incoming.removeAllListeners("data").resume();
    });
    let request: Request;
    try {
      request = requestOf(incoming, leaving.signal);
    } catch {
      outgoing.writeHead(400).end();
      return;
    }
    answer(handle, request)
      .catch(onError)
      .then((response) => write(response, outgoing))
      .catch(() => outgoing.destroy());
  };
}

async function answer(handle: FunctionHandler, request: Request): Promise<Response> {
  return await handle(request);
}

/** @throws TypeError for what is no request by Fetch's rules */
function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request {
  const { method = "GET", rawHeaders } = incoming;
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  const url = new URL(incoming.url ?? "/", `http://${headers.get("host") ?? "localhost"}`);
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = hasBody ? ({ body: bodyOf(incoming), duplex: "half" } as const) : {};
  return new Request(url, { method, headers, signal, ...body });
}

/** The body as it comes, at its reader's pace; what comes once the reader has had enough is let go. */
function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
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
  const headers: Record<string, string | string[]> = Object.fromEntries(response.headers);
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) headers["set-cookie"] = cookies;
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
  outgoing.flushHeaders();
  if (first && !first.done) await pass(first.value, outgoing);
  for (let reading = await next; !reading.done; reading = await reader.read()) await pass(reading.value, outgoing);
  outgoing.end();
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

/** Writes at the client's pace. */
async function pass(bytes: Uint8Array, outgoing: ServerResponse): Promise<void> {
  if (outgoing.write(bytes) || outgoing.destroyed) return;
  await new Promise<void>((resolve) => {
    const goOn = () => {
      outgoing.off("drain", goOn).off("close", goOn);
      resolve();
    };
    outgoing.on("drain", goOn).on("close", goOn);
  });
}
