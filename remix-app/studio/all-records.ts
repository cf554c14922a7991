import { problem } from "../http/problem.ts";

/** How many are read at a time, and at most. */
export const recordsPerRead = 5_000;
const mostRecords = 100_000;

/**
 * All records of a list, page by page; never a part of them.
 * @throws Response 400 INVALID_REQUEST for a list of more than 100,000
 */
export async function allRecords<Entry>(
  read: (cursor: string | undefined) => Promise<{ records: readonly Entry[]; nextCursor: string | null }>,
  { requestId }: { requestId: string },
): Promise<Entry[]> {
  const all: Entry[] = [];
  let cursor: string | undefined;
  do {
    const { records, nextCursor } = await read(cursor);
    all.push(...records);
    cursor = nextCursor ?? undefined;
    if (all.length > mostRecords || (all.length === mostRecords && cursor !== undefined)) {
      const detail = `These are more than ${mostRecords.toLocaleString("en")} lines. Choose a shorter range.`;
      throw problem("INVALID_REQUEST", { requestId, detail });
    }
  } while (cursor !== undefined);
  return all;
}
