import fc from "fast-check";
import { expect, test } from "vitest";
import { readDecimalText, readUsdAmount } from "./usd-amount.ts";

test.for([
  ["0.000000000001", "0.000000000001"],
  ["123456789012345e-12", "123.456789012345"],
  ["999999999999.999", "999999999999.999"],
  ["1.50", "1.5"],
  ["15E+2", "1500"],
  ["0e400", "0"],
  ["-0.0", "0"],
] as const)("reads %s as the amount %s", ([text, amount]) => {
  expect(readUsdAmount(text)).toBe(amount);
});

test.for([
  "0.0000000000001",
  "1234.567890123456",
  "1234567890123456",
  "1000000000000",
  "-1",
  "1e-13",
  "NaN",
  "1.",
  ".5",
  "0x1",
  "1e1000000000",
])("rejects %s as an amount", (text) => {
  expect(readUsdAmount(text)).toBeNull();
});

test("reads any float's text as the same number, unless it has too many digits", () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 999_999_999_999, noNaN: true }), (number) => {
      const amount = readUsdAmount(JSON.stringify(number));
      if (amount !== null) expect(Number(amount)).toBe(number === 0 ? 0 : number);
    }),
  );
});

test.for([
  ["1.5e-3", "0.0015"],
  ["0.13080438340307526", "0.13080438340307526"],
  ["-2E2", "-200"],
  // Forms of zero in IEEE 754 decimal128.
  ["0E-6176", "0"],
  ["0.00e+999", "0"],
] as const)("reads %s as the decimal %s", ([text, decimal]) => {
  expect(readDecimalText(text)).toBe(decimal);
});
