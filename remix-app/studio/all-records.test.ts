import { describe, expect, test } from "vitest";
import { allRecords, recordsPerRead, wholeTable } from "./all-records.ts";

const context = { requestId: "r" };

/** Reads a list of so many numbers, in pages. */
function listOf(length: number) {
  return async (cursor: string | undefined) => {
    const from = Number(cursor ?? 0);
    const to = Math.min(from + recordsPerRead, length);
    const records = Array.from({ length: to - from }, (_, index) => from + index);
    return { records, nextCursor: to < length ? String(to) : null };
  };
}
async function refused(throwing: () => unknown) {
  try {
    await throwing();
  } catch (response) {
    if (response instanceof Response) return { status: response.status, detail: (await response.json()).detail };
  }
  throw new Error("not refused");
}

describe("a file", () => {
  test.each([0, 1, recordsPerRead, recordsPerRead + 1, 100_000])("has all of %d records, each once", async (length) => {
    const all = await allRecords(listOf(length), context);
    expect(all).toHaveLength(length);
    expect(new Set(all).size).toBe(length);
  });

  test("of more is refused, and says what to do", async () => {
    expect(await refused(() => allRecords(listOf(100_001), context))).toEqual({
      status: 400,
      detail: "These are more than 100,000 lines. Choose a shorter range.",
    });
  });

  test("of a table is refused where a row was left out", async () => {
    expect(wholeTable({ rows: [1, 2], leftOut: 0 }, context)).toEqual([1, 2]);
    expect(await refused(() => wholeTable({ rows: [1, 2], leftOut: 1 }, context))).toEqual({
      status: 400,
      detail: "These are more than 2 lines. Choose a shorter range.",
    });
  });
});
