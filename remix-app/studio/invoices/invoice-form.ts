import type { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import { draftedInvoice } from "#shared/provider-records.ts";
import { type InvoiceErrors, type InvoiceField, invoiceFields, type TypedInvoice } from "./invoice-facts.ts";

/** An invoice as a member typed it, before the review. Its amount is exact text, rounded to 12 decimals. */
export type InvoiceDraft = z.output<typeof draftedInvoice>["record"];

const messages: Record<InvoiceField, string> = {
  appId: "Choose the app that the invoice is for",
  provider: "Use up to 128 letters, digits, dots, underscores, colons and hyphens, as in your imports",
  accountId: "Enter the account as the provider writes it, with at most 256 characters",
  reference: "Enter the reference as it is on the invoice, with at most 256 characters",
  kind: "Choose a kind",
  replaces: "Enter the reference as it is on that invoice, with at most 256 characters, or leave it empty",
  amountUsd: "Enter the amount with a decimal point and without commas, such as 1234.56",
  issuedOn: "Enter the day the invoice was issued",
  periodStart: "Enter the period’s first day, or leave it empty",
  periodEnd: "Enter the period’s last day, or leave it empty",
};
const missingMessages: Partial<Record<InvoiceField, string>> = {
  provider: "Enter the provider",
  reference: "Enter the invoice’s reference",
  amountUsd: "Enter the amount",
};
const plainAmount = /^\$?\s?(\d+(?:\.\d+)?)$/;

/**
 * Reads an invoice's form. The amount is parsed as a decimal. Commas are rejected, because they separate
 * thousands for some people and decimals for others.
 * @returns the draft, or one message per field
 */
export function readInvoiceForm(form: FormData): {
  typed: TypedInvoice;
  read: { draft: InvoiceDraft } | { errors: InvoiceErrors };
} {
  const typed = Object.fromEntries(
    invoiceFields.map((name) => [name, String(form.get(name) ?? "").trim()]),
  ) as TypedInvoice;
  const given = Object.entries(typed).filter(([, text]) => text !== "");
  const parsed = draftedInvoice.safeParse({
    ...Object.fromEntries(given),
    amountUsd: amountOf(typed.amountUsd),
  });
  if (parsed.success) return { typed, read: { draft: parsed.data.record } };
  const errors: InvoiceErrors = {};
  for (const { path, code, message } of parsed.error.issues) {
    const field = path[0] as InvoiceField;
    if (errors[field]) continue;
    errors[field] = typed[field] === "" ? (missingMessages[field] ?? messages[field]) : messages[field];
    if (field === "amountUsd" && plainAmount.test(typed.amountUsd)) {
      errors.amountUsd = "Enter at most 12 digits before the decimal point";
    }
    // A custom issue of `periodEnd` means that the period ends before it starts.
    if (field === "periodEnd" && code === "custom") errors[field] = message;
  }
  return { typed, read: { errors } };
}

function amountOf(text: string): JsonNumber | undefined {
  const digits = plainAmount.exec(text)?.[1];
  return digits === undefined ? undefined : new JsonNumber(digits);
}
