import { expect, test } from "vitest";
import { formatWait } from "./attempts.ts";

test.each([
  [0, "1 second"],
  [1, "1 second"],
  [1.2, "2 seconds"],
  [90, "90 seconds"],
  [91, "2 minutes"],
  [120, "2 minutes"],
  [121, "3 minutes"],
  [5_400, "90 minutes"],
  [5_401, "2 hours"],
  [86_400, "24 hours"],
])("writes a wait of %d s as %s", (seconds, words) => {
  expect(formatWait(seconds)).toBe(words);
});
