import { z } from "zod";
import { AuthError } from "../core/errors.ts";
import type { Request } from "./context.ts";

const maxBodyBytes = 1_048_576;
/** Deeper than any real client nests its JSON, and shallow enough for every later parser. */
const maxDepth = 500;

/**
 * Reads the body once. `null` counts as an empty object.
 * @throws AuthError 413 request_entity_too_large, 400 bad_json
 */
async function readBody(c: Request): Promise<unknown> {
  const known = c.get("body");
  if (known !== undefined) return known;
  const isForm = c.req.header("content-type")?.startsWith("application/x-www-form-urlencoded");
  const body = parseJson(isForm ? "" : await readText(c)) ?? {};
  c.set("body", body);
  return body;
}

/** Reads the body like `readJson`, but returns undefined if there is none. */
export async function readOptionalJson<Schema extends z.ZodType>(
  c: Request,
  schema: Schema,
): Promise<z.output<Schema> | undefined> {
  const content = await readText(c);
  if (!content) return undefined;
  c.set("body", parseJson(content) ?? {});
  return readJson(c, schema);
}

/**
 * Parses the body with `schema`.
 * @throws AuthError 413 request_entity_too_large, 400 bad_json
 */
export async function readJson<Schema extends z.ZodType>(c: Request, schema: Schema): Promise<z.output<Schema>> {
  const parsed = schema.safeParse(withFoldedNames(await readBody(c)));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw badJson(`${issue?.path.join(".") || "body"}: ${issue?.message ?? "invalid"}`);
}

/** Reads a form's fields. @throws AuthError 413 request_entity_too_large */
export async function readForm(c: Request): Promise<Record<string, string>> {
  return Object.fromEntries(new URLSearchParams(await readText(c)));
}

/** Reads field names as Go does. Names are case-insensitive, and the last duplicate wins. */
function withFoldedNames(body: unknown): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name.toLowerCase(), value]));
}

function badJson(reason: string): AuthError {
  return new AuthError(400, "bad_json", `Could not parse request body as JSON: ${reason}`);
}

async function readText(c: Request): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const part of partsOf(c)) {
    size += part.byteLength;
    if (size > maxBodyBytes) {
      throw new AuthError(413, "request_entity_too_large", `Request body too large (max ${maxBodyBytes} bytes)`);
    }
    chunks.push(part);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Yields the body's chunks. A client disconnecting in the middle is not a server error. */
async function* partsOf(c: Request): AsyncGenerator<Uint8Array> {
  const reader = c.req.raw.body?.getReader();
  try {
    for (;;) {
      const part = await reader?.read().catch(() => {
        throw badJson("unexpected end of input");
      });
      if (!part?.value) return;
      yield part.value;
    }
  } finally {
    await reader?.cancel().catch(() => undefined);
  }
}

function parseJson(text: string): unknown {
  if (!text.trim()) throw badJson("unexpected end of JSON input");
  if (depthOf(text) > maxDepth) throw badJson("exceeded max depth");
  try {
    return JSON.parse(text, (_key, value) => (typeof value === "string" ? wellFormed(value) : value));
  } catch (error) {
    throw error instanceof AuthError ? error : badJson("invalid syntax");
  }
}

/** Returns text that Postgres accepts: replaces lone surrogates and refuses NUL. */
function wellFormed(value: string): string {
  if (value.includes("\0")) throw badJson("a text holds the character NUL");
  return value.toWellFormed();
}

/** Returns the nesting depth of brackets outside strings. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"?|[[\]{}]/gs)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, ++depth);
    else if (token === "]" || token === "}") depth--;
  }
  return deepest;
}

/** A string. Absent and null count as empty. */
export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");

/** A text that may be absent. Absent and empty have different meanings. */
export const optionalText = z
  .string()
  .nullish()
  .transform((value) => value ?? undefined);

/** A boolean. Absent and null count as false. */
export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

/** An object with any values. Absent and null become undefined. */
export const metadata = z
  .record(z.string(), z.unknown())
  .nullish()
  .transform((value) => value ?? undefined);
