import { expect, test } from "vitest";
import { isOneLine } from "./one-line.ts";

test.each(["", "Nightly", "Ada’s phone", "日本語", "👩‍💻"])("%j is one line", (text) => {
  expect(isOneLine(text)).toBe(true);
});

test.each(["a\0b", "a\nb", "a\tb", "\u0085", "\ud83d", "a\udc00"])("%j is none", (text) => {
  expect(isOneLine(text)).toBe(false);
});
