import { expect, test } from "vitest";
import { changeOf } from "./overview-metric.ts";

test.each([
  [110, 100, { direction: "up", text: "10%" }],
  [109.9, 100, { direction: "up", text: "9.9%" }],
  ["50.5", "101", { direction: "down", text: "50%" }],
  [0, 5, { direction: "down", text: "100%" }],
  [109.96, 100, { direction: "up", text: "10%" }],
  [1_099, 100, { direction: "up", text: "999%" }],
  [1_100, 100, { direction: "up", text: "over 999%" }],
  [100_001, 100_000, { direction: "up", text: "under 0.1%" }],
  [7, 7, { direction: "same", text: "0%" }],
  [7, 0, { direction: "up", text: "new" }],
  [0, 0, null],
  [null, 3, null],
  [3, null, null],
])("a figure of %s after a figure of %s has the change %o", (now, before, change) => {
  expect(changeOf(now, before)).toEqual(change);
});
