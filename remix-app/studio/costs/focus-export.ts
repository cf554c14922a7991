import type { AppLoadContext } from "@remix-run/node";
import { type CsvColumn, createCsvResponse } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import type { StudioMember } from "../studio-reader.ts";
import { listCostRecords, listInvoiceShares } from "./book.ts";
import { monthWindow } from "./month.ts";
import { platformBookId } from "./platform-book.ts";
import type { CostRecord, InvoiceShare } from "./provider-import-schema.ts";

/**
 * A charge in a FOCUS file (FinOps Open Cost and Usage Specification 1.2). Amounts are exact strings, times RFC 3339.
 */
interface FocusCharge {
  recordType: "imported_cost" | InvoiceShare["kind"];
  recordId: string;
  appId: string;
  appName: string | null;
  provider: string;
  accountId: string | null;
  service: string | null;
  billedUsd: string;
  effectiveUsd: string;
  /** Start and exclusive end of the charge's days. */
  from: string;
  to: string;
  category: "Usage" | "Purchase" | "Credit";
  frequency: "Usage-Based" | "One-Time";
  description: string;
  invoiceId: string | null;
}

type CountedCost = Pick<
  CostRecord,
  "appId" | "appName" | "provider" | "accountId" | "externalRunId" | "service" | "amountUsd" | "occurredAt"
>;

/** Returns the charge for an imported cost. Its BilledCost is 0, because invoices carry the billed amount. */
function chargeOfCost({ externalRunId, amountUsd, occurredAt, ...cost }: CountedCost): FocusCharge {
  const day = occurredAt.slice(0, 10);
  return {
    ...cost,
    recordType: "imported_cost",
    recordId: externalRunId,
    billedUsd: "0",
    effectiveUsd: amountUsd,
    ...toChargePeriod(day, day),
    category: "Usage",
    frequency: "Usage-Based",
    description: `Cost that ${cost.provider} stated`,
    invoiceId: null,
  };
}

/**
 * Returns the charge for the part of an invoice in this month. Its EffectiveCost is 0, because imported records carry
 * the costs.
 */
function chargeOfInvoice({ id, reference, kind, inMonth, provider, accountId, ...rest }: InvoiceShare): FocusCharge {
  const { appId, appName } = rest;
  return {
    appId,
    appName,
    provider,
    accountId,
    recordType: kind,
    recordId: id,
    service: null,
    billedUsd: inMonth.amountUsd,
    effectiveUsd: "0",
    ...toChargePeriod(inMonth.firstDay, inMonth.lastDay),
    category: kind === "invoice" ? "Purchase" : "Credit",
    frequency: "One-Time",
    description: `${kind === "invoice" ? "Invoice" : "Credit note"} ${reference}`,
    invoiceId: reference,
  };
}

function toChargePeriod(first: string, last: string): { from: string; to: string } {
  const end = new Date(Date.parse(last) + 24 * 60 * 60 * 1000).toISOString();
  return { from: `${first}T00:00:00Z`, to: end.replace(".000", "") };
}

/**
 * Returns the columns of a FOCUS 1.2 file: the mandatory columns plus InvoiceId, SubAccountId and custom columns, whose
 * names begin with x_.
 */
function focusColumns(month: string): CsvColumn<FocusCharge>[] {
  const { from, to } = monthWindow(month);
  const [start, end] = [from.replace(".000", ""), to.replace(".000", "")];
  return [
    { name: "BilledCost", value: ({ billedUsd }) => billedUsd },
    { name: "BillingAccountId", value: ({ accountId }) => accountId ?? "none" },
    { name: "BillingAccountName", value: () => null },
    { name: "BillingCurrency", value: () => "USD" },
    { name: "BillingPeriodEnd", value: () => end },
    { name: "BillingPeriodStart", value: () => start },
    { name: "ChargeCategory", value: ({ category }) => category },
    { name: "ChargeClass", value: () => null },
    { name: "ChargeDescription", value: ({ description }) => description },
    { name: "ChargeFrequency", value: ({ frequency }) => frequency },
    { name: "ChargePeriodEnd", value: (charge) => charge.to },
    { name: "ChargePeriodStart", value: (charge) => charge.from },
    { name: "ContractedCost", value: ({ effectiveUsd }) => effectiveUsd },
    { name: "EffectiveCost", value: ({ effectiveUsd }) => effectiveUsd },
    { name: "InvoiceId", value: ({ invoiceId }) => invoiceId },
    { name: "InvoiceIssuerName", value: ({ provider }) => provider },
    { name: "ListCost", value: ({ effectiveUsd }) => effectiveUsd },
    { name: "PricingQuantity", value: () => null },
    { name: "PricingUnit", value: () => null },
    { name: "ProviderName", value: ({ provider }) => provider },
    { name: "PublisherName", value: ({ provider }) => provider },
    { name: "ServiceCategory", value: () => "AI and Machine Learning" },
    { name: "ServiceName", value: ({ service, provider }) => service ?? provider },
    { name: "SubAccountId", value: () => null },
    { name: "x_AppId", value: ({ appId }) => (appId === platformBookId ? null : appId) },
    { name: "x_AppName", value: ({ appName }) => appName },
    { name: "x_RecordId", value: ({ recordId }) => recordId },
    { name: "x_RecordType", value: ({ recordType }) => recordType },
  ];
}

/**
 * Returns a month's costs, and the shares of invoices that belong to the month, as a FOCUS file without replaced
 * records. BilledCost adds up to the invoiced amount and EffectiveCost to the imported amount, as on the reconciliation
 * page.
 */
export function focusFile(
  context: AppLoadContext,
  { reader, month }: { reader: StudioMember; month: string },
): Promise<Response> {
  const limit = recordsPerRead;
  const costs = eachPage((cursor) =>
    listCostRecords(context, { reader, query: { ...monthWindow(month), limit, cursor } }),
  );
  const invoices = eachPage((cursor) => listInvoiceShares(context, { reader, query: { limit, cursor }, month }));
  async function* pages() {
    for await (const page of costs) yield page.filter(({ counted }) => counted).map(chargeOfCost);
    for await (const page of invoices) yield page.filter(({ replacedBy }) => replacedBy === null).map(chargeOfInvoice);
  }
  return createCsvResponse(focusColumns(month), { name: `focus-${month}`, pages: pages() });
}
