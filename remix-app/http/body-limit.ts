import { isEncoded } from "#shared/content-coding.ts";
import { problem } from "./problem.ts";

/** The maximum size of a body that a route reads without a limit of its own. */
export const maxBodyBytes = 64 * 1024;

/**
 * Reads a request's body. Routes call this function after they have decided that the caller may use them, so that the
 * bodies of other callers are never read.
 * @throws Response 413 for a body above the limit, 415 for a compressed one
 */
export async function readBody(
  request: Request,
  { requestId, maxBytes = maxBodyBytes }: { requestId: string; maxBytes?: number },
): Promise<Uint8Array<ArrayBuffer>> {
  if (isEncoded(request)) {
    const detail = "Send the body without Content-Encoding.";
    // States the accepted content coding (RFC 9110 section 12.5.3).
    throw problem("UNSUPPORTED_MEDIA_TYPE", { requestId, detail, headers: { "Accept-Encoding": "identity" } });
  }
  const body = await readLimitedBody(request, maxBytes);
  if (body) return body;
  const detail = `Send at most ${maxBytes / 1024} KiB.`;
  throw problem("PAYLOAD_TOO_LARGE", { requestId, detail, headers: { Connection: "close" } });
}

/**
 * Reads a request's body and refuses it as soon as it is known to exceed the limit: first by its declared length, then
 * by counting.
 * @returns the bytes, or null if there are too many
 */
export async function readLimitedBody(request: Request, limit = maxBodyBytes): Promise<Uint8Array<ArrayBuffer> | null> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (!(declared <= limit)) return null;
  // GET and HEAD requests have no body. Accessing `request.body` would force Hono to turn its lightweight request into
  // a real one.
  if (request.method === "GET" || request.method === "HEAD") return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = request.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    length += read.value.byteLength;
    if (length > limit) {
      await reader?.cancel();
      return null;
    }
    chunks.push(read.value);
  }
  const body = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    body.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return body;
}
