import type { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import { draftedInvoice } from "#shared/provider-records.ts";
import { readInvoiceAmounts } from "./invoice-amounts.ts";
import { type InvoiceErrors, type InvoiceField, invoiceFields, type TypedInvoice } from "./invoice-facts.ts";

/** An invoice as a member typed it, before the review. Its amounts are exact text. */
export type InvoiceDraft = z.output<typeof draftedInvoice>["record"];

const messages: Partial<Record<InvoiceField, string>> = {
  appId: "Choose the app that the invoice is for",
  provider: "Use up to 128 letters, digits, dots, underscores, colons and hyphens, as in your imports",
  accountId: "Enter the account as the provider writes it, with at most 256 characters",
  reference: "Enter the reference as it is on the invoice, with at most 256 characters",
  kind: "Choose a kind",
  replaces: "Enter the reference as it is on that invoice, with at most 256 characters, or leave it empty",
  issuedOn: "Enter the day the invoice was issued",
  periodStart: "Enter the period’s first day, or leave it empty",
  periodEnd: "Enter the period’s last day, or leave it empty",
};
const missingMessages: Partial<Record<InvoiceField, string>> = {
  provider: "Enter the provider",
  reference: "Enter the invoice’s reference",
};
const tooLarge = "The amount in US dollars has more than 12 digits before the decimal point";

/**
 * Reads an invoice's form.
 * @returns the draft, or one message per field. If only the exchange rate is missing, `rateless` is the invoice with
 * the rate 1.
 */
export function readInvoiceForm(form: FormData): {
  typed: TypedInvoice;
  read: { draft: InvoiceDraft } | { errors: InvoiceErrors; rateless?: InvoiceDraft };
} {
  const typed = Object.fromEntries(
    invoiceFields.map((name) => [name, String(form.get(name) ?? "").trim()]),
  ) as TypedInvoice;
  typed.currency ||= "USD";
  const { currency: _, exchangeRate: __, netAmount: ___, taxAmount: ____, totalAmount: _____, ...others } = typed;
  const amounts = readInvoiceAmounts(typed);
  const given = Object.entries(others).filter(([, text]) => text !== "");
  const parsed = draftedInvoice.safeParse({
    ...Object.fromEntries(given),
    ...("amounts" in amounts ? amounts.amounts : { amountUsd: new JsonNumber("0") }),
  });
  const errors: InvoiceErrors = "errors" in amounts ? { ...amounts.errors } : {};
  for (const { path, code, message } of parsed.error?.issues ?? []) {
    if (path[0] === "amountUsd") {
      errors[typed.exchangeRate === "" ? "netAmount" : "exchangeRate"] ??= tooLarge;
      continue;
    }
    const field = path[0] as InvoiceField;
    // A custom issue of `periodEnd` means that the period ends before it starts.
    const isReversed = field === "periodEnd" && code === "custom";
    const missing = typed[field] === "" ? missingMessages[field] : undefined;
    errors[field] ??= isReversed ? message : (missing ?? messages[field] ?? message);
  }
  if (!parsed.success || "errors" in amounts) return { typed, read: { errors } };
  const draft = parsed.data.record;
  if (!amounts.isRateMissing) return { typed, read: { draft } };
  const noRate = `Enter the US dollars for one ${typed.currency}. The provider’s imported costs have no rate for this period.`;
  return { typed, read: { errors: { exchangeRate: noRate }, rateless: draft } };
}
