import { z } from "zod";
import { offsetTime } from "#shared/utc-time.ts";
import { problem } from "./problem.ts";

/**
 * Where a page of a list begins; null without a cursor.
 * @param options.read a cursor's position, null for a text that is none of ours
 * @throws Response 400 INVALID_REQUEST for such a text
 */
export function positionOf<Position>(
  cursor: string | null | undefined,
  { read, requestId }: { read: (cursor: string) => Position | null; requestId: string },
): Position | null {
  if (cursor === null || cursor === undefined) return null;
  const position = read(cursor);
  if (position !== null) return position;
  throw problem("INVALID_REQUEST", {
    requestId,
    detail: "The cursor is invalid. Send the nextCursor of an earlier page.",
  });
}

/**
 * A page of a list, and the cursor of the next one; null where there is none.
 * @param found one record more than a page has, where there are so many
 */
export function pageOf<Row>(
  found: readonly Row[],
  { limit, cursorOf }: { limit: number; cursorOf: (last: Row) => string },
): { records: Row[]; nextCursor: string | null } {
  const records = found.slice(0, limit);
  const last = found.length > limit ? records.at(-1) : undefined;
  return { records, nextCursor: last === undefined ? null : cursorOf(last) };
}

/** Where a page of a list that is ordered by creation ends. */
export const position = z.object({ createdAt: offsetTime, id: z.uuid() });
export type Position = z.infer<typeof position>;

/** The opaque text of a position. */
export function writeCursor({ createdAt, id }: Position): string {
  return Buffer.from(JSON.stringify({ createdAt, id })).toString("base64url");
}

/** @returns null for a text that is none of ours */
export function readCursor(cursor: string): Position | null {
  try {
    return position.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
  } catch {
    return null;
  }
}

/** A text that the database can hold. */
const part = z
  .string()
  .max(256)
  .refine((text) => !text.includes("\0") && text.isWellFormed());
const key = z.array(part).max(8);

/** The opaque text of where a page of a list ends that is ordered by texts. */
export function writeKeyCursor(values: readonly string[]): string {
  return Buffer.from(JSON.stringify(values)).toString("base64url");
}

/** @returns null for a text that is none of ours */
export function readKeyCursor(cursor: string, { length }: { length: number }): string[] | null {
  try {
    const values = key.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
    return values.length === length ? values : null;
  } catch {
    return null;
  }
}

/**
 * Returns a page of a list in memory. Starts over if the cursor's record is gone.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor
 */
export function pageOfAll<Row>(
  rows: readonly Row[],
  options: { limit: number; cursor: string | null; idOf: (row: Row) => string; requestId: string },
): { records: Row[]; nextCursor: string | null } {
  const { limit, cursor, idOf, requestId } = options;
  const [last] = positionOf(cursor, { read: (text) => readKeyCursor(text, { length: 1 }), requestId }) ?? [];
  const start = last === undefined ? 0 : rows.findIndex((row) => idOf(row) === last) + 1;
  return pageOf(rows.slice(start), { limit, cursorOf: (row) => writeKeyCursor([idOf(row)]) });
}

/** Characters. The longest cursor, of usage by all dimensions, has 590. */
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
  throw problem("INVALID_REQUEST", {
    requestId,
    detail: "limit must be a number from 1 to 100, and cursor the nextCursor of an earlier page.",
  });
}

/** How many records of a file are read at a time. */
export const recordsPerRead = 5_000;

/**
 * The records of a list that is read by cursors, page by page, to its end.
 * @throws what reading a page throws
 */
export async function* eachPage<Row>(
  read: (cursor: string | undefined) => Promise<{ records: readonly Row[]; nextCursor: string | null }>,
): AsyncGenerator<readonly Row[], void> {
  let cursor: string | undefined;
  do {
    const { records, nextCursor } = await read(cursor);
    yield records;
    cursor = nextCursor ?? undefined;
  } while (cursor !== undefined);
}
