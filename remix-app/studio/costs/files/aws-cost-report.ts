import type { CsvFormat, CsvRow } from "./csv-format.ts";
import { lastDayBefore } from "./read-day.ts";

/**
 * AWS Cost and Usage Report, legacy and 2.0. All line types add up to the bill. Credits, refunds, discounts and
 * SavingsPlanNegation are negative. RIFee, Fee and Tax are separate lines.
 * https://docs.aws.amazon.com/cur/latest/userguide/table-dictionary-cur2-line-item.html
 */
export const awsReport: CsvFormat = {
  id: "aws-cur",
  name: "an AWS Cost and Usage Report",
  advice: "Create a report with all standard columns, as CSV.",
  isHeader: (has) =>
    ["lineItem/UnblendedCost", "lineItem/UsageStartDate", "lineItem/UsageAccountId", "lineItem/LineItemType"].filter(
      has,
    ).length >= 2,
  required: [["lineItem/UnblendedCost"], ["lineItem/CurrencyCode"], ["lineItem/UsageStartDate"]],
  begin: () => ({
    read(row) {
      const start = row.moment("lineItem/UsageStartDate");
      const end = row.optionalMoment("lineItem/UsageEndDate");
      return {
        provider: "aws",
        timeZone: "UTC",
        account: row.text("lineItem/UsageAccountId", "bill/PayerAccountId"),
        day: start.day,
        lastDay: end ? lastDayBefore(end) : undefined,
        bill: readBillingPeriod(row),
        service: serviceOf(row),
        currency: row.needed("lineItem/CurrencyCode").toUpperCase(),
        amount: row.amount("lineItem/UnblendedCost"),
      };
    },
  }),
};

/** Returns the first and last day of the billing period. The period's end in the file is exclusive. */
function readBillingPeriod(row: CsvRow): { first: string; last: string } | undefined {
  const start = row.optionalMoment("bill/BillingPeriodStartDate");
  const end = row.optionalMoment("bill/BillingPeriodEndDate");
  return start && end ? { first: start.day, last: lastDayBefore(end) } : undefined;
}

/**
 * Returns a row's service. Prefers the name to the code, because people cannot recognize a marketplace product by its
 * code. In version 2.0, `product` is a map.
 */
function serviceOf(row: CsvRow): string | null {
  const name = row.text("product/ProductName", "product/servicename");
  const map = name === null ? row.text("product") : null;
  const inMap = map?.startsWith("{") ? /"product_name"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(map)?.[1] : undefined;
  return (
    name ?? (inMap ? (JSON.parse(`"${inMap}"`) as string) : row.text("lineItem/ProductCode", "product/servicecode"))
  );
}
