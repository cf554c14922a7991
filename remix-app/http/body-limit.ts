export const maxBodyBytes = 64 * 1024;

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
