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
  throw problem("INVALID_REQUEST", { requestId, detail: "The cursor is none of ours." });
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
