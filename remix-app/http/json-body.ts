import type { z } from "zod";
import { isStorableJson, jsonStructureFault } from "#shared/json-limits.ts";
import { nameField, ourMessages } from "#shared/validation-messages.ts";
import { readBody } from "./body-limit.ts";
import { problem } from "./problem.ts";

const jsonType = /^application\/json\s*(;|$)/i;

export interface ReadJsonOptions<Schema extends z.ZodType> {
  schema: Schema;
  requestId: string;
  /** Replaces `JSON.parse`, and throws the same errors. */
  parse?: (text: string) => unknown;
}

/** More than any call sends. Limits the time that parsing and validation take. */
const limits = { maxDepth: 32, maxValues: 10_000, maxMembers: 1_000 };

/**
 * Reads the JSON that a request posts. A request without a body counts as an empty object.
 * @throws Response 413 for a body above 64 KiB, 415 if its content type is not JSON's
 * @throws Response 400 if its body can't be parsed, has another shape, or has text that databases refuse
 */
export async function readJson<Schema extends z.ZodType>(
  request: Request,
  { schema, requestId, parse = JSON.parse }: ReadJsonOptions<Schema>,
): Promise<z.infer<Schema>> {
  const contentType = request.headers.get("content-type");
  const bytes = await readBody(request, { requestId });
  if (contentType === null ? bytes.length > 0 : !jsonType.test(contentType)) {
    const detail = "Send the body as JSON, with Content-Type: application/json.";
    throw problem("UNSUPPORTED_MEDIA_TYPE", { requestId, detail });
  }
  const body = bytes.length === 0 ? {} : parseStorable(parse, bytes);
  const parsed = schema.safeParse(body, ourMessages);
  if (parsed.success) return parsed.data;
  const { detail, param } =
    body === undefined ? { detail: "The body couldn’t be read as JSON." } : faultOf(parsed.error);
  throw problem("INVALID_REQUEST", { requestId, detail, ...(param ? { members: { param } } : {}) });
}

/** @returns undefined if the body isn't JSON within the limits, or has NUL characters or lone surrogates */
function parseStorable(parse: (text: string) => unknown, bytes: Uint8Array): unknown {
  if (jsonStructureFault(bytes, limits)) return undefined;
  try {
    const body = parse(new TextDecoder().decode(bytes));
    return isStorableJson(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

/** Returns what is wrong with parsed JSON, and in which field. */
function faultOf({ issues: [issue] }: z.ZodError): { detail: string; param?: string } {
  const path = issue?.path.map(String) ?? [];
  if (issue?.code === "unrecognized_keys") {
    const param = [...path, ...issue.keys.slice(0, 1)].join(".").slice(0, 256);
    return { detail: `Unknown field: “${param}”.`, param };
  }
  const param = path.join(".");
  return param && issue
    ? { detail: nameField(issue.message, `“${param}”`), param }
    : { detail: "The body doesn’t match the schema of this call." };
}
