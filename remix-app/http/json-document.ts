import { createHash } from "node:crypto";

/** A JSON document that is the same for every visitor, with its entity tag. */
export interface JsonDocument {
  body: string;
  etag: string;
}

/** Clients and proxies may cache a document for five minutes. */
const cacheControl = "public, max-age=300";

export function jsonDocument(value: unknown): JsonDocument {
  const body = JSON.stringify(value);
  return { body, etag: `"${createHash("sha256").update(body).digest("base64url")}"` };
}

/** Answers with a document, or with 304 if the client has it already (RFC 9110 section 13.1.2). */
export function documentResponse({ body, etag }: JsonDocument, request: Request): Response {
  const headers = { "Cache-Control": cacheControl, ETag: etag };
  const cached = request.headers.get("if-none-match")?.split(",") ?? [];
  if (cached.some((tag) => ["*", etag].includes(tag.trim().replace(/^W\//, "")))) {
    return new Response(null, { status: 304, headers });
  }
  return new Response(body, { headers: { "Content-Type": "application/json", ...headers } });
}

/** Returns a document of one person as a file, never cached. @param name the file's name, without its extension */
export function createJsonFile(name: string, value: unknown): Response {
  return new Response(`${JSON.stringify(value, null, 2)}\n`, {
    headers: {
      "Content-Type": "application/json",
      "Content-Disposition": `attachment; filename="${name}.json"`,
      "Cache-Control": "private, no-store",
    },
  });
}
