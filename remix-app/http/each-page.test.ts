import { describe, expect, test } from "vitest";
import { eachPage } from "./list-page.ts";

const pageLength = 10;

/** Returns a function that reads the numbers from 0 to `length` - 1 page by page. */
function listOf(length: number) {
  return async (cursor: string | undefined) => {
    const from = Number(cursor ?? 0);
    const to = Math.min(from + pageLength, length);
    const records = Array.from({ length: to - from }, (_, index) => from + index);
    return { records, nextCursor: to < length ? String(to) : null };
  };
}

describe("eachPage", () => {
  test.each([
    [0, 1],
    [pageLength, 1],
    [pageLength + 1, 2],
    [pageLength * 100, 100],
  ])("reads a list of %d records in %d pages, each record once and in order", async (length, pageCount) => {
    const pages = await Array.fromAsync(eachPage(listOf(length)));
    expect(pages).toHaveLength(pageCount);
    expect(pages.flat()).toEqual(Array.from({ length }, (_, index) => index));
  });

  test("fetches a page of a list only when the page is needed", async () => {
    let read = 0;
    const pages = eachPage(async () => ({ records: [read++], nextCursor: "on" }));
    expect(read).toBe(0);
    await pages.next();
    expect(read).toBe(1);
    await pages.return();
    expect(read).toBe(1);
  });
});
