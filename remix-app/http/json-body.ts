import type { z } from "zod";
import { problem } from "./problem.ts";

const jsonType = /^application\/json\s*(;|$)/i;

export interface ReadJsonOptions<Schema extends z.ZodType> {
  schema: Schema;
  requestId: string;
  /** Replaces `JSON.parse`, and throws the same errors. */
  parse?: (text: string) => unknown;
}

/**
 * Reads the JSON that a request posts. A request without a body counts as an empty object.
 * @throws Response 415 if its content type is not JSON's, 400 if its body can't be parsed or has another shape
 */
export async function readJson<Schema extends z.ZodType>(
  request: Request,
  { schema, requestId, parse = JSON.parse }: ReadJsonOptions<Schema>,
): Promise<z.infer<Schema>> {
  const contentType = request.headers.get("content-type");
  const text = await request.text().catch(() => undefined);
  if (contentType === null ? text !== "" : !jsonType.test(contentType)) {
    const detail = "Send the body as JSON, with Content-Type: application/json.";
    throw problem("UNSUPPORTED_MEDIA_TYPE", { requestId, detail });
  }
  const body = text === "" ? {} : parsedBy(parse, text);
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const { detail, param } =
    body === undefined ? { detail: "The body couldn’t be read as JSON." } : faultOf(parsed.error);
  throw problem("INVALID_REQUEST", { requestId, detail, ...(param ? { members: { param } } : {}) });
}

function parsedBy(parse: (text: string) => unknown, text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : parse(text);
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
  return param
    ? { detail: `“${param}” is missing or invalid.`, param }
    : { detail: "The body doesn’t match the schema of this call." };
}
