import { z } from "zod";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { readUsdAmount } from "#shared/usd-amount.ts";

/**
 * Parses a JSON body and keeps all digits of budgets, which floats would lose.
 * @throws SyntaxError
 */
export function parseBudgets(text: string): unknown {
  return parseExactJson(text, (name) => exactMembers.has(name));
}

const exactMembers = new Set(["monthlyBudgetUsd", "previousBudgetUsd", "limitUsd", "previousLimitUsd"]);

/** Converts a budget to an exact decimal. The input is a form field or a value from {@link parseBudgets}. */
export const budgetAmount = z.instanceof(JsonNumber).transform(({ text }, context) => {
  const exact = readUsdAmount(text);
  if (exact !== null) return exact;
  context.addIssue({ code: "custom", message: "Enter an amount in dollars, such as 50" });
  return z.NEVER;
});
