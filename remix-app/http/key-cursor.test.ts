import { describe, expect, test } from "vitest";
import { readCursor, readKeyCursor, writeCursor, writeKeyCursor } from "./list-page.ts";

describe("a cursor that holds texts", () => {
  test.each([[["openai", "2026-10"]], [["", "日本 😀"]], [["a".repeat(256), "\u0001"]]])(
    "a cursor of texts can be written and read back: %j",
    (values) => {
      expect(readKeyCursor(writeKeyCursor(values), { length: 2 })).toEqual(values);
    },
  );

  test.each([
    ["too few values", ["a"]],
    ["a value that is too long", ["a", "b".repeat(257)]],
    ["a NUL character, which the database can't store", ["a", "b\0"]],
    ["half a surrogate pair", ["a", "\ud800"]],
  ])("rejects a cursor with %s", (_, values) => {
    expect(readKeyCursor(writeKeyCursor(values), { length: 2 })).toBeNull();
  });
});

describe("a cursor that holds a position", () => {
  const id = "0199c5b8-0000-7000-8000-000000000000";
  const read = (createdAt: string) => readCursor(writeCursor({ createdAt, id }));

  test.each(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00", "2026-10-07T12:00:00.123456+14:00"])(
    "accepts a cursor with the time %s",
    (at) => {
      expect(read(at)).toEqual({ createdAt: at, id });
    },
  );

  test.each(["0000-01-01T00:00:00Z", "2026-10-07T12:00:00+15:00", `2026-10-07T12:00:00.${"1".repeat(10)}Z`])(
    "rejects a cursor with the invalid time %s",
    (at) => {
      expect(read(at)).toBeNull();
    },
  );
});
