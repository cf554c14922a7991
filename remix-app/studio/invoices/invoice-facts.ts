import { formatDay, formatExactDateTime } from "../../http/date-text.ts";
import { formatExactUsd } from "../../ui/format-amount.ts";
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
    ["Amount", formatExactUsd(signedAmount(invoice))],
    ["Issued on", invoice.issuedOn && formatDay(invoice.issuedOn)],
    ["Period", periodOf(invoice)],
    ["Reviewed at", formatExactTime(invoice.reviewedAt)],
  ];
}

/** An invoice's values if nothing was entered. */
export const blankInvoice = {
  accountId: null,
  kind: "invoice",
  replaces: null,
  periodStart: null,
  periodEnd: null,
} as const;

export const kindNames: Record<InvoiceRecord["kind"], string> = { invoice: "Invoice", credit_note: "Credit note" };

/** Returns the amount that an invoice adds to totals, as an exact string. Negative for a credit note. */
export function signedAmount({ kind, amountUsd }: Pick<InvoiceRecord, "kind" | "amountUsd">): string {
  return kind === "credit_note" && /[1-9]/.test(amountUsd) ? `-${amountUsd}` : amountUsd;
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
  const { appId, provider, accountId, kind, reference, periodStart, periodEnd } = invoice;
  const fields = {
    appId,
    provider,
    accountId,
    kind: as === "correction" ? kind : as,
    replaces: as === "correction" ? reference : null,
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
  "amountUsd",
  "issuedOn",
  "periodStart",
  "periodEnd",
] as const;
export type InvoiceField = (typeof invoiceFields)[number];

export type TypedInvoice = Record<InvoiceField, string>;
export type InvoiceErrors = Partial<Record<InvoiceField, string>>;
