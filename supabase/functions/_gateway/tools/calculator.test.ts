import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CalculatorError, calculate } from "./calculator.ts";

describe("Calculator", () => {
  test.for([
    ["2 + 3 * 4", 14],
    ["(2 + 3) * 4", 20],
    ["2 ^ 3 ^ 2", 512],
    ["-2 ^ 2", -4],
    ["2 ^ -1", 0.5],
    ["--3", 3],
    ["10 - 4 - 3", 3],
    ["100 / 10 / 2", 5],
    ["7 % 4", 3],
    ["0.1 + 0.2", 0.3],
    ["1.5e3 + .5", 1500.5],
    ["sqrt(16) + max(1, 2, 3) - MIN(4, 2)", 5],
    ["round(2.5) + abs(-1)", 4],
    ["2 * pi", 6.28318530717959],
    [" 7 ", 7],
  ] as const)("the calculator evaluates %s to %d", ([expression, value]) => {
    expect(calculate(expression)).toBe(value);
  });

  test.for([
    "",
    " ",
    "2 +",
    "(2",
    "2)",
    "2 3",
    "1 / 0",
    "sqrt(-1)",
    "constructor",
    "toString()",
    "sqrt(1, 2)",
    "process.exit(1)",
    "1; 2",
    "a = 1",
    "2 ** 3",
    "`1`",
    "9".repeat(400),
  ])("the calculator rejects %j", (expression) => {
    expect(() => calculate(expression)).toThrow(CalculatorError);
  });

  test("the calculator accepts 50 levels of nesting and no more", () => {
    const nested = (depth: number) => `${"(".repeat(depth - 1)}1${")".repeat(depth - 1)}`;
    expect(calculate(nested(50))).toBe(1);
    expect(() => calculate(nested(51))).toThrow("nested too deeply");
    expect(() => calculate(`${"-".repeat(1_000)}1`)).toThrow("nested too deeply");
  });

  test("the calculator agrees with JavaScript's arithmetic, and throws only its own error type", () => {
    const number = fc.integer({ min: -1_000, max: 1_000 });
    fc.assert(
      fc.property(number, number, number, (a, b, c) => {
        expect(calculate(`(${a}) * (${b}) + (${c})`)).toBe(a * b + c);
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."0123456789.+-*/%^(), esqrtpi") }), (text) => {
        try {
          expect(Number.isFinite(calculate(text))).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(CalculatorError);
        }
      }),
    );
  });
});
