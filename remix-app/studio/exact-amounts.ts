import { z } from "zod";
import { jsonNumber } from "#shared/raw-json.ts";

/** How members are called whose texts are amounts. */
const amountName = /(Usd|Credits|Deductions)$|^(amount|balance|balanceAfter|reserved|available)$/;
const decimal = /^-?\d+(\.\d+)?$/;

/** An amount as exact text; in answers of the API it is a JSON number with the same digits. */
export const amountText = z.string().regex(decimal);

/** An answer for an API: its amounts, which are exact texts here, as JSON numbers with the same digits. */
export function exactAmounts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(exactAmounts);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      typeof member === "string" && amountName.test(name) && decimal.test(member)
        ? jsonNumber(member)
        : exactAmounts(member),
    ]),
  );
}
