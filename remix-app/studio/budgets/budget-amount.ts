import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import { readUsdAmount } from "#shared/usd-amount.ts";

/** JSON.parse with the source text of primitives (ECMAScript, JSON.parse source text access), which the compiler's library does not know yet. */
const parse = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context: { source: string }) => unknown,
) => unknown;

/**
 * Parses a body in which budgets keep their digits, which a float would not.
 * @throws SyntaxError
 */
export function parseBudgets(text: string): unknown {
  return parse(text, (key, value, { source }) =>
    key === "monthlyBudgetUsd" && typeof value === "number" ? new JsonNumber(source) : value,
  );
}

/** A monthly budget: a number of a body that {@link parseBudgets} read, or what a form's field holds; an exact decimal out. */
export const budgetAmount = z.instanceof(JsonNumber).transform(({ text }, context) => {
  const exact = readUsdAmount(text);
  if (exact !== null) return exact;
  context.addIssue({ code: "custom", message: "Enter an amount in dollars, such as 50" });
  return z.NEVER;
});
