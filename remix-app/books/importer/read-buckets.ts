import { z } from "zod";
import { UnreadableCostFile } from "../../studio/costs/files/cost-file.ts";
import { isObject, type JsonFormat, type JsonObject } from "../../studio/costs/files/json-values.ts";
import { dayOf } from "../../studio/costs/files/read-day.ts";
import type { CostPage } from "./cost-provider.ts";

/** The frame of OpenAI's and Anthropic's pages. `next_page` is null on the last page. */
const frame = z.object({
  data: z.array(z.custom<JsonObject>(isObject)),
  has_more: z.boolean(),
  next_page: z.string().nullish(),
});

const dayMs = 86_400_000;

/**
 * Reads a page of daily buckets with the reader of the provider's cost files, so that an automatic import and a file give
 * the same accounts, services and amounts.
 * @param options.startOf returns the start of a bucket in milliseconds
 */
export function readBuckets(
  page: JsonObject,
  { format, startOf }: { format: JsonFormat; startOf: (bucket: JsonObject) => number },
): CostPage {
  const { data, has_more, next_page } = frame.parse(page);
  const days = data.map((bucket, n) => {
    const where = `data[${n}]`;
    const start = startOf(bucket);
    if (!Number.isSafeInteger(start) || start % dayMs !== 0) {
      throw new UnreadableCostFile(`${where} doesn’t begin at midnight in UTC.`);
    }
    // readBucket reports a start that isn’t a date. dayOf would throw a RangeError.
    const lines = format.readBucket(bucket, where);
    return { day: dayOf(start), lines };
  });
  return { days, hasMore: has_more, next: next_page || null };
}
