import { z } from "zod";
import { add, type Decimal, formatDecimal, parseDecimal, roundHalfEven } from "#shared/decimal.ts";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { amountLimits, readDecimalText } from "#shared/usd-amount.ts";
import { request } from "./request.ts";

/** A day's cost of a project, as OpenAI states it, exactly rounded to what an amount may have. */
export type ProjectDay = { project: string; day: string; amountUsd: string };

const whole = z.instanceof(JsonNumber).transform(({ text }) => Number(text));
/** A number, or its text: both are answered. */
const decimal = z.union([z.instanceof(JsonNumber).transform(({ text }) => text), z.string()]);

/** `GET /organization/costs` (OpenAI, Administration, Usage): a page of daily buckets. */
const page = z.object({
  data: z.array(
    z.object({
      start_time: whole,
      results: z.array(
        z.object({
          amount: z.object({ value: decimal, currency: z.string() }).nullish(),
          project_id: z.string().nullish(),
        }),
      ),
    }),
  ),
  has_more: z.boolean(),
  next_page: z.string().nullish(),
});

/** Where OpenAI's costs are read: an admin key, and the address, which may be another's of the same shape. */
export type OpenAiCosts = { baseUrl: string; adminKey: string };

/** The most days of a page (1 to 180 are allowed), so that a page is a batch of the gateway. */
export const daysOfPage = 90;

/**
 * A project's days of a half-open range of UTC days, a page at a time.
 * @returns days that have a cost; days that are answered without any; and up to which day all is read
 * @throws Error in a sentence for people
 */
export async function* readProjectDays(
  { baseUrl, adminKey }: OpenAiCosts,
  { project, from, to }: { project: string; from: string; to: string },
): AsyncGenerator<{ days: ProjectDay[]; without: string[]; through: string | undefined }> {
  let cursor: string | undefined;
  do {
    const url = new URL(`${baseUrl.replace(/\/+$/, "")}/organization/costs`);
    url.searchParams.set("start_time", String(Date.parse(from) / 1_000));
    url.searchParams.set("end_time", String(Date.parse(to) / 1_000));
    url.searchParams.set("bucket_width", "1d");
    url.searchParams.set("limit", String(daysOfPage));
    url.searchParams.append("project_ids[]", project);
    url.searchParams.append("group_by[]", "project_id");
    if (cursor !== undefined) url.searchParams.set("page", cursor);
    const text = await request(url, { whom: "OpenAI", headers: { authorization: `Bearer ${adminKey}` } });
    const { data, has_more, next_page } = readPage(text);
    const next: string | undefined = has_more ? (next_page ?? undefined) : undefined;
    if (next !== undefined && next === cursor) throw new Error("OpenAI answered the same page twice.");
    cursor = next;
    const last = data.at(-1);
    const read = data.map(({ start_time, results }) => ({
      day: dayText(start_time),
      amountUsd: amountOf(project, results),
    }));
    yield {
      days: read.flatMap(({ day, amountUsd }) => (amountUsd === undefined ? [] : [{ project, day, amountUsd }])),
      without: read.flatMap(({ day, amountUsd }) => (amountUsd === undefined ? [day] : [])),
      // The day after the last that was read; an empty page before others says nothing.
      through: cursor === undefined ? to : last && dayText(last.start_time + 86_400),
    };
  } while (cursor !== undefined);
}

function readPage(text: string): z.output<typeof page> {
  try {
    return page.parse(parseExactJson(text));
  } catch {
    throw new Error("OpenAI answered with something that is no page of costs. Is OPENAI_BASE_URL right?");
  }
}

type Results = z.output<typeof page>["data"][number]["results"];

function amountOf(project: string, results: Results): string | undefined {
  const own = results.filter(({ project_id }) => project_id === project);
  const amounts = own.flatMap(({ amount }) => (amount ? [amount] : []));
  if (amounts.length === 0) return undefined;
  const other = amounts.find(({ currency }) => currency.toLowerCase() !== "usd");
  if (other) throw new Error(`OpenAI states costs of ${project} in ${other.currency}; only USD can be imported.`);
  const sum = amounts.map(({ value }) => exact(value)).reduce(add);
  return formatDecimal(rounded(sum));
}

function exact(text: string): Decimal {
  const decimalText = readDecimalText(text);
  if (decimalText === null) throw new Error(`OpenAI states ${text} as a cost, which is no amount.`);
  return parseDecimal(decimalText);
}

/** OpenAI's floats have more digits than an amount: rounded once, after the sum. */
function rounded(sum: Decimal): Decimal {
  const digits = formatDecimal(roundHalfEven(sum, 0)).replace("-", "").replace(/^0$/, "").length;
  return roundHalfEven(sum, Math.min(amountLimits.decimals, amountLimits.significantDigits - digits));
}

function dayText(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toISOString().slice(0, 10);
}
