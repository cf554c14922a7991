import { z } from "zod";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { readUsdAmount } from "#shared/usd-amount.ts";

/**
 * Parses a body in which budgets keep all of their digits, which a float would lose.
 * @throws SyntaxError
 */
export function parseBudgets(text: string): unknown {
  return parseExactJson(text, (name) => name === "monthlyBudgetUsd" || name === "previousBudgetUsd");
}

/** Parses a monthly budget from a body that {@link parseBudgets} read or from a form field into an exact decimal. */
export const budgetAmount = z.instanceof(JsonNumber).transform(({ text }, context) => {
  const exact = readUsdAmount(text);
  if (exact !== null) return exact;
  context.addIssue({ code: "custom", message: "Enter an amount in dollars, such as 50" });
  return z.NEVER;
});
