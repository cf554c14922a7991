import type { Decimal } from "#shared/decimal.ts";
import { type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import type { CsvFormat } from "./csv-format.ts";
import { isObject, type JsonFormat, readExactAmount, textOf } from "./json-values.ts";
import { lastDayBefore, type Moment, readMoment } from "./read-day.ts";

const anthropicSource = { provider: "anthropic", timeZone: "UTC" } as const;

/**
 * Pages of Anthropic's cost report. Amounts are strings in cents: "123.45" is 1.2345 USD.
 * https://platform.claude.com/docs/en/api/admin/cost_report/retrieve
 */
export const anthropicPages: JsonFormat = {
  id: "anthropic-costs",
  name: "Anthropic’s cost report",
  isBucket: (value) => "starting_at" in value && "results" in value,
  bucketStart: ({ starting_at }) => textOf(starting_at),
  readBucket(bucket, where) {
    const start = readTime(bucket.starting_at, `${where}.starting_at`);
    const end = bucket.ending_at === undefined ? null : readTime(bucket.ending_at, `${where}.ending_at`);
    if (!Array.isArray(bucket.results))
      throw new UnreadableCostFile(`${where}.results isn’t a list. Download the file again.`);
    return bucket.results.map((result: unknown, n) =>
      readResult(result, { start, end, where: `${where}.results[${n}]` }),
    );
  },
};

function readResult(
  result: unknown,
  { start, end, where }: { start: Moment; end: Moment | null; where: string },
): ReadLine {
  if (!isObject(result)) throw new UnreadableCostFile(`${where} isn’t an object. Download the file again.`);
  if (!("amount" in result) && ("uncached_input_tokens" in result || "output_tokens" in result)) throw usageInstead;
  const currency = textOf(result.currency)?.toUpperCase() ?? "USD";
  // Amounts are in the currency's smallest unit. The report contains only USD, so that unit is the cent.
  if (currency !== "USD")
    throw new UnreadableCostFile(`${where}.currency is ${currency}. Import a cost report in USD.`);
  return {
    ...anthropicSource,
    account: textOf(result.workspace_id),
    day: start.day,
    lastDay: end ? lastDayBefore(end) : undefined,
    service: textOf(result.model) ?? textOf(result.description) ?? textOf(result.cost_type),
    currency,
    amount: centsToDollars(readExactAmount(result.amount, `${where}.amount`)),
  };
}

function centsToDollars({ units, scale }: Decimal): Decimal {
  return { units, scale: scale + 2 };
}

const usageInstead = new UnreadableCostFile(
  "This is Anthropic’s usage report, which has no amounts. Export the cost report, or the CSV of the Cost page.",
);

function readTime(value: unknown, where: string): Moment {
  const moment = readMoment(textOf(value) ?? "");
  if (moment) return moment;
  throw new UnreadableCostFile(`${where} isn’t a time such as 2026-10-31T00:00:00Z. Download the file again.`);
}

/** Our name for Anthropic's default workspace, which has no id. */
const defaultWorkspace = "default";

/**
 * The CSV of the console's Cost page, in dollars. It has the names of workspaces but not their ids.
 * https://support.anthropic.com/en/articles/9534590-cost-and-usage-reporting-in-console
 */
export const anthropicCsv: CsvFormat = {
  id: "anthropic-costs-csv",
  name: "the CSV of Anthropic’s Cost page",
  advice: "Open the Cost page in Anthropic’s console and choose Export. The Usage page has tokens, not amounts.",
  isHeader: (has) =>
    has("usage_date_utc") && ["cost_usd", "list_price_usd", "usage_output_tokens", "token_type"].some(has),
  required: [["cost_usd"], ["usage_date_utc"]],
  begin: () => ({
    read(row) {
      const name = row.text("workspace_id", "workspace");
      return {
        ...anthropicSource,
        account: name?.toLowerCase() === defaultWorkspace ? defaultWorkspace : name,
        day: row.moment("usage_date_utc").day,
        service: row.text("model", "cost_type"),
        currency: "USD",
        amount: row.amount("cost_usd"),
      };
    },
  }),
};
