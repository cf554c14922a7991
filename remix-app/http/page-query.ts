import { z } from "zod";
import { problem } from "./problem.ts";

/** Characters. The longest cursor that a list answers is of usage by all its dimensions, with 538. */
export const maxCursorLength = 1024;

/** Which part of a list is asked for. */
export const pageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(50),
  cursor: z.string().min(1).max(maxCursorLength).optional(),
});

/**
 * Which part of a list is asked for: `limit` of 1 to 100, 50 without it, and an opaque `cursor`.
 * @throws Response 400 INVALID_REQUEST where either is none
 */
export function readPageQuery(request: Request, { requestId }: { requestId: string }): z.infer<typeof pageQuery> {
  const { searchParams } = new URL(request.url);
  const query = pageQuery.safeParse(Object.fromEntries(searchParams));
  if (query.success) return query.data;
  throw problem("INVALID_REQUEST", { requestId, detail: "limit is a number from 1 to 100, cursor a nextCursor." });
}
