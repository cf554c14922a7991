import { z } from "zod";
import { type CostReport, dayOfMidnight, readPage, sumUsd } from "./read-days.ts";
import { request } from "./request.ts";

/** `GET /v1/organizations/cost_report` (Anthropic, Admin API): daily buckets, amounts as text in cents. */
const page = z.object({
  data: z.array(
    z.object({
      starting_at: z.iso.datetime({ offset: true }).transform((at) => dayOfMidnight(Date.parse(at))),
      results: z.array(
        z
          .object({ amount: z.string(), currency: z.string(), workspace_id: z.string().nullish() })
          .transform(({ amount: value, ...result }) => ({ ...result, value })),
      ),
    }),
  ),
  has_more: z.boolean(),
  next_page: z.string().nullish(),
});

/** The maximum number of days in a page. */
const daysOfPage = 31;
const centUsd = "0.01";
const name = "Anthropic";

/** Our name for Anthropic's default workspace, which has no id. */
export const defaultWorkspace = "default";

/** Reads Anthropic's costs by workspace. The report excludes Priority Tier. */
export function anthropicCosts({ baseUrl, adminKey }: { baseUrl: string; adminKey: string }): CostReport {
  return {
    name,
    async readPage({ account, from, to, cursor }) {
      const url = new URL(`${baseUrl.replace(/\/+$/, "")}/v1/organizations/cost_report`);
      url.searchParams.set("starting_at", `${from}T00:00:00Z`);
      url.searchParams.set("ending_at", `${to}T00:00:00Z`);
      url.searchParams.set("bucket_width", "1d");
      url.searchParams.set("limit", String(daysOfPage));
      url.searchParams.append("group_by[]", "workspace_id");
      if (cursor !== undefined) url.searchParams.set("page", cursor);
      const headers = { "x-api-key": adminKey, "anthropic-version": "2023-06-01" };
      const { text, now } = await request(url, { server: name, headers });
      const { data, has_more, next_page } = readPage(text, { name, schema: page });
      const days = data.map(({ starting_at, results }) => {
        const own = results.filter(({ workspace_id }) => (workspace_id ?? defaultWorkspace) === account);
        return { day: starting_at, amountUsd: sumUsd(own, { name, account, unitUsd: centUsd }) };
      });
      return { days, hasMore: has_more, next: next_page, now };
    },
  };
}
