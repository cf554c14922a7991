import type { AppLoadContext } from "@remix-run/node";
import { type CsvColumn, createCsvResponse } from "../../http/csv.ts";
import { eachPage, recordsPerRead } from "../../http/list-page.ts";
import type { StudioMember } from "../studio-reader.ts";
import { listCostRecords, listCostServices, listInvoiceShares } from "./book.ts";
import { type ServiceCategory, serviceCategoryOf } from "./files/service-category.ts";
import { monthWindow } from "./month.ts";
import { platformBookId } from "./platform-book.ts";
import type { CostRecord, CostServices, InvoiceShare } from "./provider-import-schema.ts";

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
  /** In the billing currency, like the effective cost. */
  billedCost: string;
  serviceCategory: ServiceCategory;
  effectiveUsd: string;
  /** The currency of the invoice, and USD for one unit of it. */
  currency: string;
  exchangeRate: string;
  /** What the charge adds to the book's invoiced amount. */
  invoicedUsd: string;
  /** Start and exclusive end of the charge's days. */
  from: string;
  to: string;
  category: "Usage" | "Purchase" | "Credit" | "Tax";
  frequency: "Usage-Based" | "One-Time";
  description: string;
  invoiceId: string | null;
}

type CountedCost = Pick<
  CostRecord,
  "appId" | "appName" | "provider" | "accountId" | "externalRunId" | "service" | "amountUsd" | "occurredAt" | "import"
>;

/** The maximum number of daily totals whose services are read at once. */
const totalsPerRead = 25;

/** Yields the charges for costs, page by page, because a bill may have hundreds of services. */
async function* chargePages(
  context: AppLoadContext,
  { reader, costs }: { reader: StudioMember; costs: readonly CostRecord[] },
): AsyncGenerator<FocusCharge[], void> {
  for (let start = 0; start < costs.length; start += totalsPerRead) {
    const part = costs.slice(start, start + totalsPerRead);
    const costIds = part.filter((cost) => cost.import !== null).map(({ id }) => id);
    const services =
      costIds.length > 0 ? await listCostServices(context, { reader, costIds }) : new Map<string, CostServices>();
    yield part.flatMap((cost) => chargesOfCost(cost, services.get(cost.id)));
  }
}

/**
 * Returns the charges for an imported cost: one for each service of a bill, which add up to the cost. FOCUS 1.2 names
 * the service in ServiceName, without nulls, and classifies it in ServiceCategory, which is one of the allowed values.
 * https://focus.finops.org/focus-specification/v1-2/#servicename
 */
export function chargesOfCost(cost: CountedCost, services: CostServices | undefined): FocusCharge[] {
  const parts = services ?? [{ service: cost.service, category: null, amountUsd: cost.amountUsd }];
  // A cost without a service is stated by provider, so nothing is known about its services.
  const format = services ? (cost.import?.format ?? null) : null;
  return parts.map(({ service, category, amountUsd }) => ({
    ...chargeOfCost(cost),
    service,
    serviceCategory: serviceCategoryOf(service, { stated: category, format }),
    effectiveUsd: amountUsd,
  }));
}

/** Returns the charge for an imported cost. Its BilledCost is 0, because invoices carry the billed amount. */
function chargeOfCost({
  externalRunId,
  amountUsd,
  occurredAt,
  import: _,
  ...cost
}: CountedCost): Omit<FocusCharge, "serviceCategory"> {
  const day = occurredAt.slice(0, 10);
  return {
    ...cost,
    recordType: "imported_cost",
    recordId: externalRunId,
    billedCost: "0",
    effectiveUsd: amountUsd,
    currency: "USD",
    exchangeRate: "1",
    invoicedUsd: "0",
    ...toChargePeriod(day, day),
    category: "Usage",
    frequency: "Usage-Based",
    description: `Cost that ${cost.provider} stated`,
    invoiceId: null,
  };
}

/**
 * Returns the charges for the part of an invoice in this month: its net amount and its tax, if any. FOCUS 1.2: "The
 * BillingCurrency SHOULD match the currency used in the invoice", which is the currency of BilledCost, and taxes are
 * charges of category Tax. EffectiveCost is 0, because imported records carry the costs.
 */
function chargesOfInvoice({ id, reference, kind, inMonth, provider, accountId, ...rest }: InvoiceShare): FocusCharge[] {
  const { appId, appName } = rest;
  const name = `${kind === "invoice" ? "Invoice" : "Credit note"} ${reference}`;
  const net: FocusCharge = {
    appId,
    appName,
    provider,
    accountId,
    recordType: kind,
    recordId: id,
    service: null,
    serviceCategory: serviceCategoryOf(null, { stated: null, format: null }),
    billedCost: inMonth.netAmount ?? inMonth.amountUsd,
    effectiveUsd: "0",
    currency: rest.currency ?? "USD",
    exchangeRate: rest.exchangeRate ?? "1",
    invoicedUsd: inMonth.amountUsd,
    ...toChargePeriod(inMonth.firstDay, inMonth.lastDay),
    category: kind === "invoice" ? "Purchase" : "Credit",
    frequency: "One-Time",
    description: name,
    invoiceId: reference,
  };
  const { taxAmount } = inMonth;
  if (taxAmount === null || taxAmount === "0") return [net];
  const description = `Tax of ${name.charAt(0).toLowerCase()}${name.slice(1)}`;
  return [net, { ...net, category: "Tax", billedCost: taxAmount, invoicedUsd: "0", description }];
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
    { name: "BilledCost", value: ({ billedCost }) => billedCost },
    { name: "BillingAccountId", value: ({ accountId }) => accountId ?? "none" },
    { name: "BillingAccountName", value: () => null },
    { name: "BillingCurrency", value: ({ currency }) => currency },
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
    { name: "ServiceCategory", value: ({ serviceCategory }) => serviceCategory },
    { name: "ServiceName", value: ({ service, provider }) => service ?? provider },
    { name: "SubAccountId", value: () => null },
    { name: "x_AppId", value: ({ appId }) => (appId === platformBookId ? null : appId) },
    { name: "x_AppName", value: ({ appName }) => appName },
    { name: "x_ExchangeRate", value: ({ exchangeRate }) => exchangeRate },
    { name: "x_InvoicedUsd", value: ({ invoicedUsd }) => invoicedUsd },
    { name: "x_RecordId", value: ({ recordId }) => recordId },
    { name: "x_RecordType", value: ({ recordType }) => recordType },
  ];
}

/**
 * Returns a month's costs, and the shares of invoices that belong to the month, as a FOCUS file without replaced
 * records. x_InvoicedUsd adds up to the invoiced amount and EffectiveCost to the imported amount, as on the
 * reconciliation page. BilledCost adds up, for each currency, to the invoices with their tax.
 */
export function focusFile(
  context: AppLoadContext,
  { reader, month }: { reader: StudioMember; month: string },
): Promise<Response> {
  const limit = recordsPerRead;
  const costs = eachPage((cursor) =>
    listCostRecords(context, { reader, query: { ...monthWindow(month), limit, cursor } }),
  );
  const readInvoices = (cursor: string | undefined) =>
    listInvoiceShares(context, { reader, query: { limit, cursor }, month });
  async function* pages() {
    const firstInvoices = readInvoices(undefined);
    // The costs are read first, so a failure is not awaited yet.
    firstInvoices.catch(() => {});
    const invoices = eachPage((cursor) => (cursor === undefined ? firstInvoices : readInvoices(cursor)));
    for await (const page of costs) {
      yield* chargePages(context, { reader, costs: page.filter(({ counted }) => counted) });
    }
    for await (const page of invoices)
      yield page.filter(({ replacedBy }) => replacedBy === null).flatMap(chargesOfInvoice);
  }
  return createCsvResponse(focusColumns(month), { name: `focus-${month}`, pages: pages() });
}
