import { expect, test } from "vitest";
import {
  columnDecimals,
  formatCount,
  formatCredits,
  formatExactUsd,
  formatMs,
  formatShortCount,
  formatUsd,
  formatUsdPart,
} from "./format-amount.ts";

test.each([
  ["0", "$0.00"],
  ["12.34", "$12.34"],
  ["1234567.891", "$1,234,567.89"],
  ["0.1042", "$0.10"],
  ["0.0142", "$0.014"],
  ["0.0996", "$0.10"],
  ["0.01", "$0.01"],
  ["0.0099", "$0.0099"],
  ["0.0042", "$0.0042"],
  ["0.000000123456", "$0.00000012"],
  ["-0.5", "−$0.50"],
  ["-0.0042", "−$0.0042"],
])("the amount %s is displayed as %s", (amount, text) => {
  expect(formatUsd(amount)).toBe(text);
});

test.each([
  ["10", "$10.00"],
  ["12.5", "$12.50"],
  ["12.000000000001", "$12.000000000001"],
  ["-0.0042", "−$0.0042"],
  ["1204.5", "$1,204.50"],
  ["999999999999.000001", "$999,999,999,999.000001"],
])("the exact text of the amount %s is %s", (amount, text) => {
  expect(formatExactUsd(amount)).toBe(text);
});

test.each([
  ["4.999", "5", "$4.999"],
  ["4.9", "5", "$4.90"],
  ["5.00", "5", "$5.00"],
  ["5.001", "5", "$5.001"],
  ["4.994", "5", "$4.99"],
])("the part %s of the amount %s is displayed as %s", (part, whole, text) => {
  expect(formatUsdPart(part, whole)).toBe(text);
});

test("credits are formatted like amounts in dollars, but without a currency symbol", () => {
  expect([formatCredits("1234.5"), formatCredits("-0.00123"), formatCredits("0")]).toEqual([
    "1,234.50",
    "−0.0012",
    "0.00",
  ]);
});

test("counts are displayed in full or abbreviated", () => {
  expect([formatCount(1_234_567), formatShortCount(1_234_567), formatShortCount(999)]).toEqual([
    "1,234,567",
    "1.2M",
    "999",
  ]);
});

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [1_000, "1.00 s"],
  [61_540, "61.5 s"],
])("%d milliseconds are displayed as %s", (ms, text) => {
  expect(formatMs(ms)).toBe(text);
});

test.each([
  [["12.5", "0.5", null, "0"], 2, ["$12.50", "$0.50", "$0.00"]],
  [["12.5", "0.0042"], 4, ["$12.5000", "$0.0042"]],
  [["-3", "0.00000012"], 6, ["−$3.000000", "<$0.000001"]],
  [["-0.00000012"], 6, [">−$0.000001"]],
  [["0.0000005", "0.00000049"], 6, ["$0.000001", "<$0.000001"]],
  [["0"], 2, ["$0.00"]],
  [[null], 2, []],
] as const)("the amounts %j of one column have %i decimals", (amounts, decimals, texts) => {
  expect(columnDecimals(amounts)).toBe(decimals);
  expect(amounts.filter((amount) => amount !== null).map((amount) => formatUsd(amount, decimals))).toEqual(texts);
});
