import { z } from "zod";
import { type CostReport, dayOfMidnight, sumUsd } from "./read-days.ts";
import { request } from "./request.ts";

/** `GET /v1/organizations/cost_report` (Anthropic, Admin API): daily buckets, amounts as text in cents. */
const page = z.object({
  data: z.array(
    z.object({
      starting_at: z.iso.datetime({ offset: true }).transform((at) => dayOfMidnight(Date.parse(at))),
      results: z.array(z.object({ amount: z.string(), currency: z.string(), workspace_id: z.string().nullish() })),
    }),
  ),
  has_more: z.boolean(),
  next_page: z.string().nullish(),
});

/** The maximum number of days in a page. */
const daysOfPage = 31;
const centUsd = "0.01";

/** Our name for Anthropic's default workspace, which has no id. */
export const defaultWorkspace = "default";

/** Reads Anthropic's costs by workspace. The report excludes Priority Tier. */
export function anthropicCosts({ baseUrl, adminKey }: { baseUrl: string; adminKey: string }): CostReport {
  return {
    name: "Anthropic",
    async readPage({ account, from, to, cursor }) {
      const url = new URL(`${baseUrl.replace(/\/+$/, "")}/v1/organizations/cost_report`);
      url.searchParams.set("starting_at", `${from}T00:00:00Z`);
      url.searchParams.set("ending_at", `${to}T00:00:00Z`);
      url.searchParams.set("bucket_width", "1d");
      url.searchParams.set("limit", String(daysOfPage));
      url.searchParams.append("group_by[]", "workspace_id");
      if (cursor !== undefined) url.searchParams.set("page", cursor);
      const headers = { "x-api-key": adminKey, "anthropic-version": "2023-06-01" };
      const { text, now } = await request(url, { server: "Anthropic", headers });
      const { data, has_more, next_page } = readPage(text);
      const days = data.map(({ starting_at, results }) => ({
        day: starting_at,
        amountUsd: amountOf(account, results),
      }));
      return { days, hasMore: has_more, next: next_page, now };
    },
  };
}

function readPage(text: string): z.output<typeof page> {
  try {
    return page.parse(JSON.parse(text));
  } catch {
    throw new Error("Anthropic answered something that is not a page of daily costs. Check ANTHROPIC_BASE_URL.");
  }
}

type Results = z.output<typeof page>["data"][number]["results"];

function amountOf(workspace: string, results: Results): string | undefined {
  const own = results.filter(({ workspace_id }) => (workspace_id ?? defaultWorkspace) === workspace);
  if (own.length === 0) return undefined;
  const other = own.find(({ currency }) => currency.toLowerCase() !== "usd");
  if (other) throw new Error(`Anthropic states costs of ${workspace} in ${other.currency}; only USD can be imported.`);
  return sumUsd(
    own.map(({ amount }) => amount),
    { name: "Anthropic", unitUsd: centUsd },
  );
}
