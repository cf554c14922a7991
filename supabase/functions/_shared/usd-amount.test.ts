import fc from "fast-check";
import { expect, test } from "vitest";
import { readDecimalText, readUsdAmount, roundUsdAmount } from "./usd-amount.ts";

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

test.for([
  // Half of the last decimal goes to the even digit, anything above it up.
  ["0.0000000000005", "0"],
  ["0.0000000000015", "0.000000000002"],
  ["0.0000000000025", "0.000000000002"],
  ["0.00000000000250000000000000000001", "0.000000000003"],
  ["0.0000000000004999999999999999", "0"],
  ["5.0000001e-13", "0.000000000001"],
  ["9.9e-14", "0"],
  ["1e-999999999", "0"],
  // Sums of floats, as providers' reports contain them.
  ["0.30000000000000004", "0.3"],
  ["1234.5678901234567", "1234.567890123457"],
  ["999999999999.9999999999994", "999999999999.999999999999"],
] as const)("rounds %s half to even to the amount %s", ([text, amount]) => {
  expect(roundUsdAmount(text)).toEqual({ amount, isRounded: true });
});

test.for([
  ["0.000000000001", "0.000000000001"],
  ["0.0000000000010", "0.000000000001"],
  ["1234.567890123456", "1234.567890123456"],
  ["999999999999.999999999999", "999999999999.999999999999"],
  ["1e11", "100000000000"],
  ["-0e-99", "0"],
] as const)("stores all digits of the amount %s", ([text, amount]) => {
  expect(roundUsdAmount(text)).toEqual({ amount, isRounded: false });
});

test.for(["-1e-20", "-0.5", "1000000000000", "1e12", "999999999999.9999999999995", "1e999999999", "NaN", "1."])(
  "does not round %s to an amount",
  (text) => {
    expect(roundUsdAmount(text)).toBeNull();
  },
);

test("rounds an amount of 64 KiB of digits", () => {
  expect(roundUsdAmount(`0.${"9".repeat(65_536)}`)).toEqual({ amount: "1", isRounded: true });
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
