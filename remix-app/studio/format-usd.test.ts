import { expect, test } from "vitest";
import { formatUsd } from "./format-usd.ts";

test.each([
  ["0", "$0.00"],
  ["12.34", "$12.34"],
  ["1234567.891", "$1,234,567.89"],
  ["0.01", "$0.01"],
  ["0.0099", "$0.0099"],
  ["0.0042", "$0.0042"],
  ["0.000000123456", "$0.00000012"],
  ["-0.5", "-$0.50"],
])("%s is read as %s", (amount, text) => {
  expect(formatUsd(amount)).toBe(text);
});
