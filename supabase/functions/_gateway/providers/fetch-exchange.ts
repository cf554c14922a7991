import type { Take } from "./body-reader.ts";
import { decodeBody } from "./content-encoding.ts";
import type { Exchange, ExchangeAnswer, PostOptions } from "./exchange.ts";
import { NotConnected } from "./not-connected.ts";

/**
 * Buffer size of a read, many times the size of an event. By default, a stream allocates, clears and discards 64 KiB
 * for each read.
 */
const pieceBytes = 8 * 1024;
/** The abort reason of abandoned requests. Shared, because creating an error for each request is slow. */
const abandoned = new Error("the request was abandoned");

/** Posts a body with the runtime's own `fetch`. Follows no redirect, and never sends a request twice. */
export function postByFetch(
  url: string,
  headers: Record<string, string>,
  body: string,
  { onSent }: PostOptions = {},
): Exchange {
  const ending = new AbortController();
  let cancel = () => {};
  // Sends a Blob, because Deno would resend a string if a reused connection is reset, and the provider may charge for
  // both requests.
  const sent = { method: "POST", headers, body: new Blob([body]), redirect: "manual", signal: ending.signal } as const;
  const answer = fetch(url, sent).then((response): ExchangeAnswer => {
    const { status, body: bytes } = response;
    // Fetch doesn't tell when it has sent the body.
    onSent?.();
    const reader = bytes?.getReader({ mode: "byob" });
    cancel = () => void reader?.cancel().catch(() => undefined);
    async function read(): Promise<Uint8Array | undefined> {
      const reading = await reader?.read(new Uint8Array(pieceBytes));
      if (reading && !reading.done) return reading.value;
      // A cancelled reader reports the end of the stream instead of an error.
      ending.signal.throwIfAborted();
      return undefined;
    }
    async function pipe(take: Take): Promise<boolean> {
      for (let piece = await read(); piece; piece = await read()) if (!take(piece)) return true;
      return false;
    }
    return {
      status,
      header: (name) => response.headers.get(name) ?? undefined,
      // Some Deno versions decode by themselves and then omit this header.
      ...decodeBody({ read, pipe }, response.headers.get("content-encoding")),
    };
  }, rethrowFetchError);
  return {
    answer,
    abandon() {
      ending.abort(abandoned);
      // Deno sometimes misses an abort between two reads, and the provider would then send its whole answer.
      cancel();
    },
  };
}

/**
 * Rethrows an error of `fetch`, as NotConnected if no connection was established. The error has no code. Deno names the
 * cause in the error's message and Node in its `cause`, so this function searches both texts.
 */
function rethrowFetchError(error: unknown): never {
  const text = error instanceof Error ? `${error.message} ${error.cause}` : "";
  throw /client error \(Connect\)|Connection refused|ECONNREFUSED/.test(text)
    ? new NotConnected("no connection", { cause: error })
    : error;
}
