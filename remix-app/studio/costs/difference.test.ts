import { expect, test } from "vitest";
import { formatPercent, percentOf, subtractAmounts } from "./difference.ts";

test("differences of amounts are exact", () => {
  expect(subtractAmounts("62.000000000002", "29.923456789012")).toBe("32.07654321099");
  expect(subtractAmounts("0", "0.000000000001")).toBe("-0.000000000001");
  expect(subtractAmounts("1.50", "1.5")).toBe("0");
});

test.for([
  ["1", "3", "33.333333333333"],
  ["-2", "3", "-66.666666666667"],
  ["0.5", "2", "25"],
  ["5", "0.000000000001", "500000000000000"],
  ["0.000000000001", "999999999999", "0"],
  // Ties round to even; the smallest digit beyond a tie rounds up.
  ["0.00000000000005", "10", "0"],
  ["0.00000000000015", "10", "0.000000000002"],
  ["0.000000000000050000000000000000000000001", "10", "0.000000000001"],
  ["0", "7", "0"],
])("a difference of %s from the base %s is %s %", ([difference, base, percent]) => {
  expect(percentOf(difference ?? "", base ?? "")).toBe(percent);
});

test("a percentage of a zero base is null", () => {
  expect(percentOf("1", "0")).toBeNull();
  expect(percentOf("1", "0.000")).toBeNull();
});

test.for([
  ["0", "0%"],
  ["33.333333333333", "+33.3%"],
  ["-66.666666666667", "−66.7%"],
  ["-0.012345", "−0.012%"],
  ["1234.56", "+1,234.6%"],
])("the percentage %s is displayed as %s", ([percent, words]) => {
  expect(formatPercent(percent ?? "")).toBe(words);
});
