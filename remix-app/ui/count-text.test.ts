import { expect, test } from "vitest";
import { countText } from "./count-text.ts";

test.each([
  [0, "0"],
  [1_000, "1,000"],
  [1_001, "1,000+"],
])("the count %d is written as %s", (count, text) => {
  expect(countText(count)).toBe(text);
});
