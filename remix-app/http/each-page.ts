/** How many records of a file are read at a time. */
export const recordsPerRead = 5_000;

/**
 * The records of a list that is read by cursors, page by page, to its end.
 * @throws whatever reading a page throws
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
