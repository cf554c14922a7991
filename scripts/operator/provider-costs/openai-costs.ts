import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import { type CostReport, dayOfMidnight, readPage, sumUsd } from "./read-days.ts";
import { request } from "./request.ts";

const whole = z.instanceof(JsonNumber).transform(({ text }) => Number(text));
/** A number or its text, since the API returns both forms. */
const decimal = z.union([z.instanceof(JsonNumber).transform(({ text }) => text), z.string()]);

/** `GET /organization/costs` (OpenAI, Administration, Usage): a page of daily buckets. */
const page = z.object({
  data: z.array(
    z.object({
      start_time: whole.transform((seconds) => dayOfMidnight(seconds * 1_000)),
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

/** Days in a page; 1 to 180 are allowed. */
const daysOfPage = 90;
const name = "OpenAI";

/** Reads OpenAI's costs by project. @param options.baseUrl may be the URL of a compatible server */
export function openAiCosts({ baseUrl, adminKey }: { baseUrl: string; adminKey: string }): CostReport {
  return {
    name,
    async readPage({ account, from, to, cursor }) {
      const url = new URL(`${baseUrl.replace(/\/+$/, "")}/organization/costs`);
      url.searchParams.set("start_time", String(Date.parse(from) / 1_000));
      url.searchParams.set("end_time", String(Date.parse(to) / 1_000));
      url.searchParams.set("bucket_width", "1d");
      url.searchParams.set("limit", String(daysOfPage));
      url.searchParams.append("project_ids[]", account);
      url.searchParams.append("group_by[]", "project_id");
      if (cursor !== undefined) url.searchParams.set("page", cursor);
      const { text, now } = await request(url, { server: name, headers: { authorization: `Bearer ${adminKey}` } });
      const { data, has_more, next_page } = readPage(text, { name, schema: page });
      const days = data.map(({ start_time, results }) => {
        const own = results.filter(({ project_id }) => project_id === account).flatMap(({ amount }) => amount ?? []);
        return { day: start_time, amountUsd: sumUsd(own, { name, account }) };
      });
      return { days, hasMore: has_more, next: next_page, now };
    },
  };
}
