/** The parts of a request that the upstream needs. */
export type WireRequest = { method: string; path: string; body: Buffer };

const empty: Buffer = Buffer.alloc(0);
const headEnd = Buffer.from("\r\n\r\n");

/**
 * Reads the HTTP/1.1 requests of one connection (RFC 9112). Supports only bodies with a Content-Length, because the
 * bench sends no others.
 * @returns a function that takes bytes as they arrive, and throws an Error for a chunked body
 */
export function createRequestReader(onRequest: (request: WireRequest) => void): (bytes: Buffer) => void {
  let pending = empty;
  return (bytes) => {
    pending = pending.length === 0 ? bytes : Buffer.concat([pending, bytes]);
    for (;;) {
      const end = pending.indexOf(headEnd);
      if (end < 0) return;
      const head = pending.toString("latin1", 0, end);
      if (/\r\ntransfer-encoding:/i.test(head)) throw new Error("The upstream reads no body in chunks.");
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      const bodyFrom = end + headEnd.length;
      if (pending.length < bodyFrom + length) return;
      const [method = "", path = ""] = head.slice(0, head.indexOf("\r\n")).split(" ");
      const body = pending.subarray(bodyFrom, bodyFrom + length);
      pending = pending.subarray(bodyFrom + length);
      onRequest({ method, path, body });
    }
  };
}
