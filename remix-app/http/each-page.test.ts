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

  test("reads one page ahead of the page that is needed, and no more", async () => {
    let read = 0;
    const pages = eachPage(async () => ({ records: [read++], nextCursor: "on" }));
    expect(read).toBe(0);
    await pages.next();
    expect(read).toBe(2);
    await pages.return();
    expect(read).toBe(2);
  });

  test("fails at the page that cannot be read, and not if that page is never needed", async () => {
    const failing = async (cursor: string | undefined) => {
      if (cursor !== undefined) throw new Error("gone");
      return { records: [1], nextCursor: "on" };
    };
    const pages = eachPage(failing);
    expect(await pages.next()).toEqual({ done: false, value: [1] });
    await expect(pages.next()).rejects.toThrow("gone");
    const left = eachPage(failing);
    await left.next();
    await left.return();
  });
});
