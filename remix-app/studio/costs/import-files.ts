import type { CsvColumn } from "../../http/csv.ts";
import { signAmount, signedAmount } from "../invoices/invoice-facts.ts";
import type { ComparedCosts } from "./cost-comparison.ts";
import type { CostRecord, EnteredInvoice } from "./provider-import-schema.ts";
import { type ReconciledCell, stateTexts } from "./reconciliation.ts";

type Original = NonNullable<CostRecord["original"]>[number];

/** Formats an amount in its original currency, such as 10.5 EUR. */
export function originalText({ amount, currency }: Original): string {
  return `${amount} ${currency}`;
}

/** Returns an amount's conversion rate, such as 1.08 USD/EUR, as a list that is empty for USD. */
function createRateFormatter(rates: Record<string, string>) {
  return ({ currency }: Original) => (rates[currency] === undefined ? [] : [`${rates[currency]} USD/${currency}`]);
}

/** The columns of import CSV files. Amounts are exact and times are UTC. */
export const costColumns: readonly CsvColumn<CostRecord>[] = [
  { name: "external_run_id", value: (cost) => cost.externalRunId },
  { name: "granularity", value: (cost) => cost.granularity },
  { name: "provider", value: (cost) => cost.provider },
  { name: "account_id", value: (cost) => cost.accountId },
  { name: "service", value: (cost) => cost.service },
  { name: "app", value: (cost) => cost.appName },
  { name: "app_id", value: (cost) => cost.appId },
  { name: "amount_usd", value: (cost) => cost.amountUsd },
  { name: "counted", value: (cost) => String(cost.counted) },
  { name: "replaced_by", value: (cost) => cost.replacedBy },
  { name: "replaces_records", value: (cost) => cost.replaces?.records },
  { name: "replaces_usd", value: (cost) => cost.replaces?.amountUsd },
  { name: "occurred_at", value: (cost) => cost.occurredAt },
  { name: "observed_at", value: (cost) => cost.observedAt },
  { name: "recorded_at", value: (cost) => cost.recordedAt },
  { name: "revision", value: (cost) => cost.revision },
  { name: "original_amounts", value: ({ original }) => original?.map(originalText).join("; ") },
  { name: "file", value: (cost) => cost.import?.file },
  { name: "time_zone", value: (cost) => cost.import?.timeZone },
  {
    name: "usd_rates",
    value: ({ original, import: file }) => original?.flatMap(createRateFormatter(file?.rates ?? {})).join("; "),
  },
];

export const comparisonColumns: readonly CsvColumn<ComparedCosts & { provider: string }>[] = [
  { name: "provider", value: (costs) => costs.provider },
  { name: "metered_usd", value: (costs) => costs.meteredUsd },
  { name: "imported_usd", value: (costs) => costs.importedUsd },
  { name: "imported_less_metered_usd", value: (costs) => costs.differenceUsd },
  { name: "imported_less_metered_percent", value: (costs) => costs.differencePercent },
];

export const invoiceColumns: readonly CsvColumn<EnteredInvoice>[] = [
  { name: "reference", value: (invoice) => invoice.reference },
  { name: "provider", value: (invoice) => invoice.provider },
  { name: "account_id", value: (invoice) => invoice.accountId },
  { name: "app", value: (invoice) => invoice.appName },
  { name: "app_id", value: (invoice) => invoice.appId },
  { name: "kind", value: (invoice) => invoice.kind },
  { name: "replaces", value: (invoice) => invoice.replaces },
  { name: "replaced_by", value: (invoice) => invoice.replacedBy },
  { name: "amount_usd", value: (invoice) => signedAmount(invoice) },
  { name: "currency", value: (invoice) => invoice.currency },
  { name: "exchange_rate", value: (invoice) => invoice.exchangeRate },
  { name: "net_amount", value: (invoice) => signAmount(invoice, invoice.netAmount) },
  { name: "tax_amount", value: (invoice) => signAmount(invoice, invoice.taxAmount) },
  { name: "total_amount", value: (invoice) => signAmount(invoice, invoice.totalAmount) },
  { name: "issued_on", value: (invoice) => invoice.issuedOn },
  { name: "period_start", value: (invoice) => invoice.periodStart },
  { name: "period_end", value: (invoice) => invoice.periodEnd },
  { name: "reviewed_at", value: (invoice) => invoice.reviewedAt },
  { name: "recorded_at", value: (invoice) => invoice.recordedAt },
  { name: "recorded_by", value: (invoice) => invoice.recordedBy },
  { name: "reason", value: (invoice) => invoice.reason },
  { name: "id", value: (invoice) => invoice.id },
];

export const cellColumns: readonly CsvColumn<ReconciledCell>[] = [
  { name: "month", value: (cell) => cell.month },
  { name: "provider", value: (cell) => cell.provider },
  { name: "accounts", value: ({ account }) => (account.of === "all" ? "all" : account.id === null ? "none" : "one") },
  { name: "account_id", value: ({ account }) => (account.of === "all" ? null : account.id) },
  { name: "metered_usd", value: (cell) => cell.meteredUsd },
  { name: "imported_usd", value: (cell) => cell.importedUsd },
  { name: "imported_records", value: (cell) => cell.importedRecords },
  { name: "invoiced_usd", value: (cell) => cell.invoicedUsd },
  { name: "invoices", value: (cell) => cell.invoices },
  { name: "imported_less_metered_usd", value: (cell) => cell.importedDifferenceUsd },
  { name: "imported_less_metered_percent", value: (cell) => cell.importedDifferencePercent },
  { name: "invoiced_less_imported_usd", value: (cell) => cell.invoicedDifferenceUsd },
  { name: "invoiced_less_imported_percent", value: (cell) => cell.invoicedDifferencePercent },
  { name: "state", value: (cell) => stateTexts[cell.state].name },
];
