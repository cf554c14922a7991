import type { CsvFormat, CsvRow } from "./csv-format.ts";
import { lastDayBefore, type Moment, pacificDay } from "./read-day.ts";
import { findServiceCategory } from "./service-category.ts";

const googleZone = "America/Los_Angeles";

/**
 * FOCUS 1.0 to 1.3 from any provider. Costs are `BilledCost`, the amount on the invoice, with credits, taxes and
 * purchases. https://focus.finops.org/focus-specification/
 */
export const focusCosts: CsvFormat = {
  id: "focus",
  name: "a FOCUS export",
  advice: "Export all columns of FOCUS 1.0 or newer, as CSV.",
  isHeader: (has) =>
    ["BilledCost", "ChargePeriodStart", "BillingCurrency", "ChargeCategory", "EffectiveCost", "ServiceCategory"].filter(
      has,
    ).length >= 3,
  required: [
    ["BilledCost"],
    ["BillingCurrency"],
    ["ChargePeriodStart"],
    ["ProviderName", "ServiceProviderName", "PublisherName", "InvoiceIssuerName"],
  ],
  begin: () => ({
    read(row) {
      const provider = providerOf(
        row.needed("ServiceProviderName", "ProviderName", "PublisherName", "InvoiceIssuerName"),
      );
      const timeZone = provider === "gcp" ? googleZone : "UTC";
      const start = row.moment("ChargePeriodStart");
      const end = row.optionalMoment("ChargePeriodEnd");
      // Google's days are in Pacific time, unless the export already has whole days.
      const isByDay = isMidnight(start) && (end === null || isMidnight(end));
      const dayIn = timeZone === googleZone && !isByDay ? pacificDay : ({ day }: Moment) => day;
      return {
        provider,
        timeZone,
        account: row.text("SubAccountId", "BillingAccountId"),
        day: dayIn(start),
        lastDay: end ? lastDayBefore(end, dayIn) : undefined,
        bill: readBillingPeriod(row, dayIn),
        service: row.text("ServiceName"),
        serviceCategory: findServiceCategory(row.text("ServiceCategory")),
        currency: row.needed("BillingCurrency").toUpperCase(),
        amount: row.amount("BilledCost"),
      };
    },
  }),
};

function isMidnight({ ms }: Moment): boolean {
  return ms % 86_400_000 === 0;
}

function readBillingPeriod(
  row: CsvRow,
  dayIn: (moment: Moment) => string,
): { first: string; last: string } | undefined {
  const start = row.optionalMoment("BillingPeriodStart");
  const end = row.optionalMoment("BillingPeriodEnd");
  if (!start || !end) return undefined;
  // A period from midnight to midnight UTC already has whole days, so it needs no conversion to Pacific time.
  const by = isMidnight(start) && isMidnight(end) ? ({ day }: Moment) => day : dayIn;
  return { first: by(start), last: lastDayBefore(end, by) };
}

const known: readonly [name: RegExp, provider: string][] = [
  [/^(aws|amazon)\b/i, "aws"],
  [/^(microsoft|azure)\b/i, "azure"],
  [/^(google|gcp)\b/i, "gcp"],
  [/^openai\b/i, "openai"],
  [/^anthropic\b/i, "anthropic"],
];

/** Maps a provider's name in a FOCUS file to its name in imported costs. */
function providerOf(name: string): string {
  const [, provider] = known.find(([pattern]) => pattern.test(name)) ?? [];
  const label = name.toLowerCase().replace(/[^a-z0-9._:-]+/g, "-");
  return provider ?? (label.replace(/^-+|-+$/g, "").slice(0, 128) || "unknown");
}
