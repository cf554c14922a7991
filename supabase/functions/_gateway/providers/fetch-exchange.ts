import type { Take } from "./body-reader.ts";
import { decoded } from "./content-encoding.ts";
import type { Answer, Exchange } from "./exchange.ts";
import { NotConnected } from "./not-connected.ts";

/** Many times an event; a stream's own way is to take 64 KiB for each of its readings, to be cleared and thrown away. */
const pieceBytes = 8 * 1024;
/** Why a request was given up: an error of its own each time would cost more than it tells. */
const over = new Error("the call is over");

/** Posts a body with the runtime's own `fetch`. It follows no redirect, and sends nothing twice. */
export function postByFetch(url: string, headers: Record<string, string>, body: string): Exchange {
  const ending = new AbortController();
  let cancel = () => {};
  // No text: that Deno would send once more where a connection in use is reset, which may be a second charge.
  const sent = { method: "POST", headers, body: new Blob([body]), redirect: "manual", signal: ending.signal } as const;
  const answer = fetch(url, sent).then((response): Answer => {
    const { status, body: bytes } = response;
    const reader = bytes?.getReader({ mode: "byob" });
    cancel = () => void reader?.cancel().catch(() => undefined);
    async function read(): Promise<Uint8Array | undefined> {
      const reading = await reader?.read(new Uint8Array(pieceBytes));
      if (reading && !reading.done) return reading.value;
      // A reader that is cancelled says that this was the end.
      ending.signal.throwIfAborted();
      return undefined;
    }
    async function pour(take: Take): Promise<boolean> {
      for (let piece = await read(); piece; piece = await read()) if (!take(piece)) return true;
      return false;
    }
    return {
      status,
      header: (name) => response.headers.get(name) ?? undefined,
      // Some versions of Deno decode by themselves, and then leave out this header.
      ...decoded({ read, pour }, response.headers.get("content-encoding")),
    };
  }, refuse);
  return {
    answer,
    abandon() {
      ending.abort(over);
      // Deno now and then misses an abort that falls between two reads, and would let the provider write to its end.
      cancel();
    },
  };
}

/** `fetch` has no code for a connection that did not come about: Deno says it in the message, Node in the cause. */
function refuse(error: unknown): never {
  const text = error instanceof Error ? `${error.message} ${error.cause}` : "";
  throw /client error \(Connect\)|Connection refused|ECONNREFUSED/.test(text)
    ? new NotConnected("no connection", { cause: error })
    : error;
}
