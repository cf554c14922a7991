import { expect, test } from "vitest";
import { isLabel, newRequestId } from "./labels.ts";

test("a label has 1 to 128 of its characters", () => {
  expect(isLabel("")).toBe(false);
  expect(isLabel("a")).toBe(true);
  expect(isLabel("A-z.0_9:".repeat(16))).toBe(true);
  expect(isLabel("a".repeat(129))).toBe(false);
});

test.for(["a b", "a/b", "ä", "a\n", "a\u0000", "a,b"])("%j is none", (text) => {
  expect(isLabel(text)).toBe(false);
});

test("a new request id is a label", () => {
  expect(isLabel(newRequestId())).toBe(true);
});
