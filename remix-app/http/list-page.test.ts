import { describe, expect, test } from "vitest";
import { buildPage, parseCursor } from "./list-page.ts";

const cursorOf = (last: number) => `after ${last}`;

describe("pageOf", () => {
  test.each([
    [0, null],
    [1, null],
    [3, null],
    [4, "after 2"],
  ])("for a limit of 3 and %d records found, returns the next cursor %j", (length, nextCursor) => {
    const found = Array.from({ length }, (_, index) => index);
    expect(buildPage(found, { limit: 3, cursorOf })).toEqual({ records: found.slice(0, 3), nextCursor });
  });
});

describe("positionOf", () => {
  const read = (cursor: string) => (cursor === "ours" ? { at: 1 } : null);

  test("returns the cursor's position, and null without a cursor", () => {
    expect(parseCursor("ours", { read, requestId: "r" })).toEqual({ at: 1 });
    expect([parseCursor(undefined, { read, requestId: "r" }), parseCursor(null, { read, requestId: "r" })]).toEqual([
      null,
      null,
    ]);
  });

  test.each(["", "theirs"])("refuses the cursor %j", (cursor) => {
    let refusal: unknown;
    try {
      parseCursor(cursor, { read, requestId: "r" });
    } catch (thrown) {
      refusal = thrown;
    }
    expect(refusal).toMatchObject({ status: 400 });
  });
});
