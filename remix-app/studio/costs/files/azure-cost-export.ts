import { UnreadableCostFile } from "./cost-file.ts";
import type { CsvFormat, CsvRow } from "./csv-format.ts";
import { readUsDay } from "./read-day.ts";

const costs = ["CostInBillingCurrency", "PreTaxCost", "Cost"] as const;
const currencies = ["BillingCurrency", "BillingCurrencyCode", "Currency", "CurrencyCode"] as const;
const dates = ["Date", "UsageDateTime", "UsageDate"] as const;
/** Columns that occur only in Azure's exports. */
const azureOnlyColumns = [
  "MeterCategory",
  "SubscriptionId",
  "SubscriptionGuid",
  "SubscriptionName",
  "ConsumedService",
  "CostUSD",
];
/** Charges that appear only in amortized exports. */
const amortizedChargePattern = /^unused(reservation|savingsplan)$/i;

/**
 * Azure cost and usage details (EA, MCA, MPA, pay-as-you-go) and the download of cost analysis. Refunds are negative
 * and keep the date of the purchase.
 * https://learn.microsoft.com/azure/cost-management-billing/dataset-schema/schema-index
 */
export const azureExport: CsvFormat = {
  id: "azure",
  name: "an Azure cost export",
  advice: "Export “Cost and usage details (actual)” as CSV.",
  isHeader: (has) =>
    azureOnlyColumns.some(has) && [...costs, "CostUSD", ...dates, ...currencies].filter(has).length >= 2,
  required: [costs, currencies, dates],
  begin(columns) {
    const cost = columns.first(...costs) ?? costs[0];
    let unused = 0;
    return {
      read(row) {
        if (amortizedChargePattern.test(row.text("ChargeType") ?? "")) unused++;
        return {
          provider: "azure",
          timeZone: "UTC",
          account: row.text("SubscriptionId", "SubscriptionGuid", "BillingProfileId", "BillingAccountId"),
          day: dayOf(row, dates),
          bill: readBillingPeriod(row),
          service: row.text("MeterCategory", "ServiceName", "ConsumedService", "ServiceFamily"),
          currency: row.needed(...currencies).toUpperCase(),
          amount: row.amount(cost),
        };
      },
      end: () =>
        unused > 0
          ? ["This is an amortized export, which doesn’t add up to the invoice. Export actual costs instead."]
          : [],
    };
  },
};

function dayOf(row: CsvRow, names: readonly string[]): string {
  const text = row.needed(...names);
  const day = readUsDay(text);
  if (day !== null) return day;
  throw new UnreadableCostFile(
    `${row.where}: ${row.title(names)} is "${text}", which isn’t a date as MM/DD/YYYY or YYYY-MM-DD. Import the file as it was downloaded.`,
  );
}

/** Returns the first and last day of the billing period. The period's end in the file is inclusive. */
function readBillingPeriod(row: CsvRow): { first: string; last: string } | undefined {
  const [start, end] = ["BillingPeriodStartDate", "BillingPeriodEndDate"] as const;
  if (row.text(start) === null || row.text(end) === null) return undefined;
  return { first: dayOf(row, [start]), last: dayOf(row, [end]) };
}
