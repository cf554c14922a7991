import { expect, test } from "vitest";
import { formatDecimal } from "#shared/decimal.ts";
import { readAmount } from "./read-amount.ts";

const read = (text: string, decimalComma = false) => {
  const value = readAmount(text, { decimalComma });
  return value && formatDecimal(value);
};

test.each([
  ["0.00000080000", "0.0000008"],
  ["1.2E-7", "0.00000012"],
  ["-3.4e+2", "-340"],
  ["+.5", "0.5"],
  ["5.", "5"],
  ["-0.00", "0"],
  ["0E-6176", "0"],
  ["(1.25)", "-1.25"],
  ["-$1.25", "-1.25"],
  ["$-1.25", "-1.25"],
  ["−1.25", "-1.25"],
  ["1,234.56", "1234.56"],
  ["-1,234,567", "-1234567"],
  ["0.003835980000000000000000000000", "0.00383598"],
  ["0.4838709677419368", "0.4838709677419368"],
])("reads the amount %s as %s", (text, amount) => {
  expect(read(text)).toBe(amount);
});

test.each([
  "",
  "abc",
  "1,234",
  "1,5",
  "1.234,56",
  "12,34.5",
  "1.2.3",
  "--1",
  "(-1)",
  "(1",
  "1)",
  "1e",
  "1e100",
  "NaN",
  "Infinity",
  "0x10",
  "1 000",
  "1%",
  ".",
])("refuses the amount %j", (text) => {
  expect(read(text)).toBeNull();
});

test.each([
  ["12,50", "12.5"],
  ["1.234,56", "1234.56"],
  ["-1.234.567,8", "-1234567.8"],
  ["12.50", "12.5"],
  ["0.123", "0.123"],
  ["7", "7"],
  ["1,2E-7", "0.00000012"],
  ["1.234,5E+01", "12345"],
  ["1.234E-7", "0.0000001234"],
  ["1.234", null],
  ["1,234.56", null],
])("in a file with decimal commas, reads the amount %s as %s", (text, amount) => {
  expect(read(text, true)).toBe(amount);
});

test("an amount has at most 15 digits before the point and 40 after it", () => {
  expect(read("9".repeat(15))).toBe("9".repeat(15));
  expect(read("9".repeat(16))).toBeNull();
  expect(read(`0.${"9".repeat(40)}`)).toBe(`0.${"9".repeat(40)}`);
  expect(read(`0.${"9".repeat(41)}`)).toBeNull();
  expect(read("1e-40")).toBe(`0.${"0".repeat(39)}1`);
  expect(read("1e-41")).toBeNull();
});
