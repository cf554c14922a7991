import { type CostLine, type ReadLine, UnreadableCostFile } from "./cost-file.ts";
import type { CsvFormat, CsvRow } from "./csv-format.ts";
import { isObject, type JsonFormat, type JsonObject, readExactAmount, textOf } from "./json-values.ts";
import { dayOf, lastDayBefore, type Moment, readMoment } from "./read-day.ts";

const openAiSource = { provider: "openai", timeZone: "UTC" } as const;

/**
 * Pages of OpenAI's costs API. Each page has daily buckets. The results in a bucket name a project or line item only if
 * the report is grouped by it.
 * https://developers.openai.com/api/reference/resources/admin/subresources/organization/subresources/usage/methods/costs
 */
export const openAiPages: JsonFormat = {
  id: "openai-costs",
  name: "OpenAI costs",
  isBucket: (value) => "start_time" in value && ("results" in value || "result" in value),
  bucketStart: ({ start_time, start_time_iso }) => textOf(start_time) ?? textOf(start_time_iso),
  readBucket(bucket, where) {
    const start = readTime(textOf(bucket.start_time) ?? textOf(bucket.start_time_iso), `${where}.start_time`);
    const end = textOf(bucket.end_time) === null ? null : readTime(textOf(bucket.end_time), `${where}.end_time`);
    const results = bucket.results ?? bucket.result;
    if (!Array.isArray(results))
      throw new UnreadableCostFile(`${where}.results isn’t a list. Download the file again.`);
    return results.map((result: unknown, n) => readResult(result, { start, end, where: `${where}.results[${n}]` }));
  },
};

function readResult(
  result: unknown,
  { start, end, where }: { start: Moment; end: Moment | null; where: string },
): ReadLine {
  if (!isObject(result)) throw new UnreadableCostFile(`${where} isn’t an object. Download the file again.`);
  if (!("amount" in result) && ("input_tokens" in result || "num_model_requests" in result)) throw usageInstead;
  if (result.amount === null || result.amount === undefined) return { skipped: "results without an amount" };
  const { value, currency } = isObject(result.amount) ? result.amount : ({} as JsonObject);
  return {
    ...openAiSource,
    account: textOf(result.project_id) ?? textOf(result.organization_id),
    day: start.day,
    lastDay: end ? lastDayBefore(end) : undefined,
    service: textOf(result.line_item),
    currency: textOf(currency)?.toUpperCase() ?? "",
    amount: readExactAmount(value, `${where}.amount.value`),
  };
}

const usageInstead = new UnreadableCostFile(
  "This is OpenAI’s usage report, which has no amounts. Export costs instead: GET /v1/organization/costs, or Export in the cost view.",
);

/** Reads Unix seconds or an ISO 8601 time. */
function readTime(text: string | null, where: string): Moment {
  if (text !== null && /^\d{9,11}(?:\.0+)?$/.test(text)) {
    const ms = Number.parseInt(text, 10) * 1_000;
    return { ms, day: dayOf(ms), isDay: false };
  }
  const moment = text === null ? null : readMoment(text);
  if (moment) return moment;
  throw new UnreadableCostFile(`${where} is ${text ?? "missing"}, which isn’t a time. Download the file again.`);
}

const starts = ["start_time_iso", "start_time"] as const;
const amounts = ["amount_value", "amount.value"] as const;
const currencies = ["amount_currency", "amount.currency"] as const;

/**
 * The cost export of OpenAI's usage dashboard. A day without costs is a row with an empty amount.
 * https://help.openai.com/en/articles/8554956-understanding-your-api-usage
 */
export const openAiCsv: CsvFormat = {
  id: "openai-costs-csv",
  name: "OpenAI’s cost export",
  hasWholeDays: true,
  advice: "Open the cost view of OpenAI’s usage dashboard and choose Export.",
  isHeader: (has) => starts.some(has) && [...amounts, "num_model_requests", "line_item", "api_source"].some(has),
  required: [amounts, currencies, starts],
  begin: () => ({ read: readRow }),
};

function readRow(row: CsvRow): CostLine | { skipped: string } {
  if (row.text(...amounts, ...currencies) === null) return { skipped: "days without costs" };
  const end = row.text("end_time_iso", "end_time");
  return {
    ...openAiSource,
    account: row.text("project_id", "organization_id"),
    day: readTime(row.needed(...starts), `${row.where}: ${row.title(starts)}`).day,
    lastDay: end === null ? undefined : lastDayBefore(readTime(end, `${row.where}: column end_time`)),
    service: row.text("line_item"),
    currency: row.needed(...currencies).toUpperCase(),
    amount: row.amount(...amounts),
  };
}
