import { expect, test } from "vitest";
import { budgetAmount, parseBudgets } from "./budget-amount.ts";

const read = (text: string) => {
  const { monthlyBudgetUsd } = parseBudgets(`{"monthlyBudgetUsd": ${text}}`) as { monthlyBudgetUsd: unknown };
  const amount = budgetAmount.safeParse(monthlyBudgetUsd);
  return amount.success ? amount.data : null;
};

test.each([
  ["12.50", "12.5"],
  ["0", "0"],
  // A float cannot represent this number.
  ["123456789012.345", "123456789012.345"],
  ["0.000000000001", "0.000000000001"],
  ["0.0000000000001", null],
  ["0.123456789012345", null],
  ["999999999999.123", "999999999999.123"],
  ["1000000000000", null],
  ["-1", null],
  ['"5"', null],
])("a budget of %s is parsed as %s", (text, amount) => {
  expect(read(text)).toBe(amount);
});

test("parseBudgets leaves numbers that are not budgets unchanged", () => {
  expect(parseBudgets('{"requestsPerMinute": 5, "appBudgets": []}')).toEqual({ requestsPerMinute: 5, appBudgets: [] });
});
