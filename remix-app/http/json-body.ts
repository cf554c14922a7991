import type { z } from "zod";
import { problem } from "./problem.ts";

const jsonType = /^application\/json\s*(;|$)/i;

export interface ReadJsonOptions<Schema extends z.ZodType> {
  schema: Schema;
  requestId: string;
  /** In place of `JSON.parse`, whose errors it throws. */
  parse?: (text: string) => unknown;
}

/**
 * Reads the JSON that a request posts.
 * @throws Response 415 where its content type is not JSON's, 400 where its body does not parse or has another shape
 */
export async function readJson<Schema extends z.ZodType>(
  request: Request,
  { schema, requestId, parse = JSON.parse }: ReadJsonOptions<Schema>,
): Promise<z.infer<Schema>> {
  if (!jsonType.test(request.headers.get("content-type") ?? "")) {
    throw problem("INVALID_REQUEST", { requestId, status: 415, detail: "This takes JSON." });
  }
  const body: unknown = await request
    .text()
    .then((text) => parse(text))
    .catch(() => undefined);
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const param = parsed.error.issues[0]?.path.join(".");
  const detail = param ? `“${param}” is missing or not valid.` : "The body could not be read.";
  throw problem("INVALID_REQUEST", { requestId, detail, ...(param ? { members: { param } } : {}) });
}
