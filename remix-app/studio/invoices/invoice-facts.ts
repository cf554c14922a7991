import { formatDay, formatExactDateTime } from "../../http/date-text.ts";
import { formatExactMoney, formatExactUsd } from "../../ui/format-amount.ts";
import { platformBookId } from "../costs/platform-book.ts";
import type { InvoiceRecord } from "../costs/provider-import-schema.ts";
import type { InvoiceRecorder } from "./invoice-entry.ts";

/** Returns an invoice's exact values with their labels. */
export function invoiceFacts(
  invoice: Pick<
    InvoiceRecord,
    | "provider"
    | "accountId"
    | "reference"
    | "kind"
    | "replaces"
    | "amountUsd"
    | "currency"
    | "exchangeRate"
    | "netAmount"
    | "taxAmount"
    | "totalAmount"
    | "issuedOn"
    | "periodStart"
    | "periodEnd"
    | "reviewedAt"
    | "appId"
  > & { appName: string | null },
): [term: string, text: string][] {
  return [
    ...(invoice.appId === platformBookId
      ? []
      : [["App", invoice.appName ?? "A deleted app"] satisfies [string, string]]),
    ["Provider", invoice.provider],
    ["Account", invoice.accountId ?? "None"],
    ["Reference", invoice.reference],
    ["Kind", kindNames[invoice.kind]],
    ...(invoice.replaces === null ? [] : [["Replaces", invoice.replaces] satisfies [string, string]]),
    ...amountFacts(invoice),
    ["Issued on", invoice.issuedOn && formatDay(invoice.issuedOn)],
    ["Period", periodOf(invoice)],
    ["Reviewed at", formatExactTime(invoice.reviewedAt)],
  ];
}

/** Returns an invoice's exact amounts with their labels: those in its currency, and the one that counts. */
function amountFacts(
  invoice: Pick<InvoiceRecord, "kind" | "amountUsd" | "currency" | "exchangeRate" | InvoiceAmountName>,
): [term: string, text: string][] {
  const { currency, exchangeRate } = invoice;
  const usd = formatExactUsd(signedAmount(invoice));
  if (currency === null) return [["Amount", usd]];
  const money = (name: InvoiceAmountName) =>
    formatExactMoney({ amount: signAmount(invoice, invoice[name]) ?? "0", currency });
  return [
    ["Net amount", money("netAmount")],
    ["Tax", money("taxAmount")],
    ["Total", money("totalAmount")],
    ...(currency === "USD"
      ? []
      : ([
          ["Exchange rate", `1 ${currency} = ${exchangeRate} USD`],
          ["Net amount in US dollars", usd],
        ] satisfies [string, string][])),
  ];
}
type InvoiceAmountName = "netAmount" | "taxAmount" | "totalAmount";

/** An invoice's values if nothing was entered. */
export const blankInvoice = {
  accountId: null,
  kind: "invoice",
  replaces: null,
  currency: null,
  exchangeRate: null,
  netAmount: null,
  taxAmount: null,
  totalAmount: null,
  periodStart: null,
  periodEnd: null,
} as const;

export const kindNames: Record<InvoiceRecord["kind"], string> = { invoice: "Invoice", credit_note: "Credit note" };

/** Returns the amount that an invoice adds to totals, as an exact string. Negative for a credit note. */
export function signedAmount(invoice: Pick<InvoiceRecord, "kind" | "amountUsd">): string {
  return signAmount(invoice, invoice.amountUsd);
}

/** Returns one of an invoice's amounts with its sign, like {@link signedAmount}. */
export function signAmount<Amount extends string | null>({ kind }: Pick<InvoiceRecord, "kind">, amount: Amount) {
  return kind === "credit_note" && amount !== null && /[1-9]/.test(amount) ? `-${amount}` : amount;
}

/** Formats a time to the second. Returns an empty text for an empty time. */
export function formatExactTime(at: string): string {
  return at && formatExactDateTime(at);
}

/**
 * Describes an invoice's period. A missing first or last day defaults to the start or end of the other day's month.
 * Without both, the period is the month of issue.
 */
export function periodOf({ periodStart, periodEnd }: Pick<InvoiceRecord, "periodStart" | "periodEnd">): string {
  if (periodStart && periodEnd) return `${formatDay(periodStart)} to ${formatDay(periodEnd)}`;
  if (periodStart) return `${formatDay(periodStart)} to the end of that month`;
  return periodEnd ? `Start of the month to ${formatDay(periodEnd)}` : "Month of issue";
}

/** Returns the path of the form for a correction or credit note, prefilled from the invoice. */
export function followUpPath(
  base: string,
  { invoice, as }: { invoice: InvoiceRecord; as: "correction" | "credit_note" },
) {
  const { appId, provider, accountId, kind, reference, currency, exchangeRate, periodStart, periodEnd } = invoice;
  const fields = {
    appId,
    provider,
    accountId,
    kind: as === "correction" ? kind : as,
    replaces: as === "correction" ? reference : null,
    currency,
    exchangeRate: currency === "USD" ? null : exchangeRate,
    periodStart,
    periodEnd,
  };
  const given = Object.entries(fields).filter((field): field is [string, string] => Boolean(field[1]));
  return `${base}/new?${new URLSearchParams(given)}`;
}

/** What to say if the database did not answer when an invoice was to be recorded. */
export const unconfirmedInvoice =
  "The database didn’t respond, so the invoice may have been recorded. Record it again to find out. It’s never recorded twice.";

/** Returns who recorded an invoice, according to the workspace's log. */
export function recorderText(recorded: InvoiceRecorder | null): string {
  if (recorded === null) return "Unknown";
  const { by, name } = recorded;
  return by === "person" ? (name ?? "A deleted account") : `${name ?? "A deleted app"}, with its key`;
}

/** The form's fields, in display order. */
export const invoiceFields = [
  "appId",
  "provider",
  "accountId",
  "reference",
  "kind",
  "replaces",
  "currency",
  "netAmount",
  "taxAmount",
  "totalAmount",
  "exchangeRate",
  "issuedOn",
  "periodStart",
  "periodEnd",
] as const;
export type InvoiceField = (typeof invoiceFields)[number];

export type TypedInvoice = Record<InvoiceField, string>;
export type InvoiceErrors = Partial<Record<InvoiceField, string>>;

/** The fields, except for its key, in which a record may differ from the recorded invoice. */
export const recordedFields = [
  "kind",
  "replaces",
  "amountUsd",
  "currency",
  "exchangeRate",
  "netAmount",
  "taxAmount",
  "totalAmount",
  "issuedOn",
  "periodStart",
  "periodEnd",
] as const;

/** The maximum size of an original document, in MiB. The database enforces it too. */
export const maxDocumentMiB = 5;
