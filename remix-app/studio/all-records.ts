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
      throw tooMany(mostRecords, requestId);
    }
  } while (cursor !== undefined);
  return all;
}

/**
 * The rows of a table, where nothing was left out of it.
 * @throws Response 400 INVALID_REQUEST where something was
 */
export function wholeTable<Row>(
  { rows, leftOut }: { rows: readonly Row[]; leftOut: number },
  { requestId }: { requestId: string },
): readonly Row[] {
  if (leftOut > 0) throw tooMany(rows.length, requestId);
  return rows;
}

function tooMany(most: number, requestId: string): Response {
  const detail = `These are more than ${most.toLocaleString("en")} lines. Choose a shorter range.`;
  return problem("INVALID_REQUEST", { requestId, detail });
}
