import { expect, test } from "vitest";
import { readStack } from "../scripts/test/stack.ts";
import { openBrowser } from "./testing/browser.ts";

const { base } = readStack();

// React writes pages in blocks of 2,048 bytes. At least two of the three shifts put a three-byte character across the
// end of a block (github.com/facebook/react/issues/24985).
test.each([0, 1, 2])("a page keeps multi-byte characters intact after %s single-byte characters", async (shift) => {
  const typed = "a".repeat(shift) + "’".repeat(650);
  const { text } = await openBrowser(base).post("/signup", { email: typed, password: "" });
  expect(text).toContain(`value="${typed}"`);
  expect(text).not.toContain("\0");
});
