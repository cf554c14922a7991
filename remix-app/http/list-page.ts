import { z } from "zod";
import { offsetTime } from "#shared/utc-time.ts";
import { problem } from "./problem.ts";

/**
 * Returns the position where a page of a list begins; null without a cursor.
 * @param options.read returns a cursor's position, or null for an invalid cursor
 * @throws Response 400 INVALID_REQUEST for an invalid cursor
 */
export function parseCursor<Position>(
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
 * Returns a page of a list and the cursor of the next page. The cursor is null on the last page.
 * @param found the records of the page, and one more if there is a next page
 */
export function buildPage<Row>(
  found: readonly Row[],
  { limit, cursorOf }: { limit: number; cursorOf: (last: Row) => string },
): { records: Row[]; nextCursor: string | null } {
  const records = found.slice(0, limit);
  const last = found.length > limit ? records.at(-1) : undefined;
  return { records, nextCursor: last === undefined ? null : cursorOf(last) };
}

/** The last record of a page in a list ordered by creation, or by a value and then by creation. */
export const position = z.object({
  createdAt: offsetTime,
  id: z.uuid(),
  value: z
    .string()
    .regex(/^-?\d{1,30}(?:\.\d{1,30})?$/)
    .optional(),
});
export type Position = z.infer<typeof position>;

/** Encodes a position as an opaque cursor. */
export function writeCursor({ createdAt, id, value }: Position): string {
  return Buffer.from(JSON.stringify({ createdAt, id, value })).toString("base64url");
}

/** @returns null for an invalid cursor */
export function readCursor(cursor: string): Position | null {
  try {
    return position.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
  } catch {
    return null;
  }
}

/** Text that the database can store. */
const cursorTextSchema = z
  .string()
  .max(256)
  .refine((text) => !text.includes("\0") && text.isWellFormed());
const cursorKeySchema = z.array(cursorTextSchema).max(8);

/** Encodes the sort keys of a page's last row as an opaque cursor. */
export function writeKeyCursor(values: readonly string[]): string {
  return Buffer.from(JSON.stringify(values)).toString("base64url");
}

/** @returns null for an invalid cursor */
export function readKeyCursor(cursor: string, { length }: { length: number }): string[] | null {
  try {
    const values = cursorKeySchema.parse(JSON.parse(Buffer.from(cursor, "base64url").toString()));
    return values.length === length ? values : null;
  } catch {
    return null;
  }
}

/**
 * Returns a page of a list in memory. Starts over if the cursor's record is gone.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor
 */
export function paginateInMemory<Row>(
  rows: readonly Row[],
  options: { limit: number; cursor: string | null; idOf: (row: Row) => string; requestId: string },
): { records: Row[]; nextCursor: string | null } {
  const { limit, cursor, idOf, requestId } = options;
  const [last] = parseCursor(cursor, { read: (text) => readKeyCursor(text, { length: 1 }), requestId }) ?? [];
  const start = last === undefined ? 0 : rows.findIndex((row) => idOf(row) === last) + 1;
  return buildPage(rows.slice(start), { limit, cursorOf: (row) => writeKeyCursor([idOf(row)]) });
}

/** In characters. The longest cursor, from the usage API, has 590. */
export const maxCursorLength = 1024;

export const pageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(50),
  cursor: z.string().min(1).max(maxCursorLength).optional(),
});

/**
 * Parses which part of a list is requested: a `limit` of 1 to 100, 50 by default, and an opaque `cursor`.
 * @throws Response 400 INVALID_REQUEST if either is invalid
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

/** Number of records of a file that are read at a time. */
export const recordsPerRead = 5_000;

/**
 * Yields the records of a list, page by page, following cursors to its end. Reads the next page while the caller works
 * on a page.
 * @throws what reading a page throws
 */
export async function* eachPage<Row>(
  read: (cursor: string | undefined) => Promise<{ records: readonly Row[]; nextCursor: string | null }>,
): AsyncGenerator<readonly Row[], void> {
  for (let page = read(undefined), hasMore = true; hasMore; ) {
    const { records, nextCursor } = await page;
    hasMore = nextCursor !== null;
    if (nextCursor !== null) page = read(nextCursor);
    // The caller may stop before it needs the next page. A failure still reaches the await above.
    page.catch(() => {});
    yield records;
  }
}
