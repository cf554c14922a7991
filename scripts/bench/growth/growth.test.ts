import { expect, test } from "vitest";
import { growthTable, judgeGrowth } from "./growth.ts";

test.each([
  ["constant", 15, "met"],
  ["constant", 15.1, "missed"],
  ["logarithmic", 30, "met"],
  ["logarithmic", 30.1, "missed"],
] as const)("with a %s growth bound, a slowdown from 10 ms to %s ms is judged as %s", (bound, ms, verdict) => {
  expect(judgeGrowth({ bound, tookMs: [10, ms] })).toEqual({ ratio: ms / 10, verdict });
});

test.each([
  [100, "met"],
  [100.1, "missed"],
])("with a bound of 100 ms, %s ms at the largest size is judged as %s", (ms, verdict) => {
  expect(judgeGrowth({ bound: { maxMs: 100 }, tookMs: [1, ms] }).verdict).toBe(verdict);
});

test("the growth benchmark does not judge operations that are linear by design, and ignores differences of up to 2 ms", () => {
  expect(judgeGrowth({ bound: { linear: "reads a window" }, tookMs: [1, 100] }).verdict).toBe("");
  expect(judgeGrowth({ bound: "constant", tookMs: [0.5, 2.5] }).verdict).toBe("met");
  expect(judgeGrowth({ bound: "constant", tookMs: [0.5, 2.6] }).verdict).toBe("missed");
});

test("prints the sizes, ratio, bound and kilobytes of a growth measurement", () => {
  const row = { what: "page: runs", bound: "constant" as const, tookMs: [10, 12], bytes: [900, 1_001] };
  const [, , line] = growthTable({ factors: [1, 10], rows: [row] }).split("\n");
  expect(line?.split("|").map((cell) => cell.trim())).toEqual([
    "",
    "page: runs",
    "10.0",
    "12.0",
    "1.2",
    "constant, ≤ 1.5",
    "met",
    "1, 2",
    "",
  ]);
});
