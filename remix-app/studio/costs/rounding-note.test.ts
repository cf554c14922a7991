import { expect, test } from "vitest";
import { describeRounding } from "./rounding-note.tsx";

const sumOf = (rows: (string | null)[], total: string | null, decimals = 2) => ({
  label: "Metered",
  rows,
  total,
  decimals,
});

test("a total says what rounding makes of the rows shown", () => {
  expect(describeRounding([sumOf(["1.004", "1.004", "1.004"], "3.012")])).toBe(
    "Rows are rounded. As shown, Metered adds up to $3.00 instead of $3.01. Exact amounts are in the CSV.",
  );
  expect(describeRounding([sumOf(["-0.006", "0.009"], "0.003")])).toBe(null);
});

test.for([
  ["rows that add up as shown", sumOf(["1.01", "2.02"], "3.03")],
  ["a hidden total", sumOf(["1.004", "1.004"], null)],
  ["an unknown row", sumOf([null, "1.004"], "9")],
  ["no rows", sumOf([], "9")],
] as const)("says nothing about the rounding of %s", ([, sum]) => {
  expect(describeRounding([sum])).toBeNull();
});

test("names at most three totals that rounding affects", () => {
  expect(describeRounding(Array(5).fill(sumOf(["0.004", "0.004"], "0.008")))).toContain("and 2 more");
});
