/** The fields of the form, in the order in which they are asked for. */
export const invoiceFields = [
  "appId",
  "provider",
  "accountId",
  "reference",
  "amountUsd",
  "issuedOn",
  "periodStart",
  "periodEnd",
] as const;
export type InvoiceField = (typeof invoiceFields)[number];

/** What was typed, field by field. */
export type TypedInvoice = Record<InvoiceField, string>;
export type InvoiceErrors = Partial<Record<InvoiceField, string>>;
