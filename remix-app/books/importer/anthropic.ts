import { anthropicPages } from "../../studio/costs/files/anthropic-costs.ts";
import { textOf } from "../../studio/costs/files/json-values.ts";
import { readMoment } from "../../studio/costs/files/read-day.ts";
import type { CostProvider } from "./cost-provider.ts";
import { readBuckets } from "./read-buckets.ts";

/** The maximum number of days in a page. */
const pageDays = 31;

/**
 * Anthropic's costs by workspace and description. The report leaves out Priority Tier.
 * https://platform.claude.com/docs/en/api/admin/cost_report/retrieve
 */
export const anthropic: CostProvider = {
  id: "anthropic",
  name: "Anthropic",
  settings: { key: "ANTHROPIC_ADMIN_KEY", url: "ANTHROPIC_BASE_URL" },
  keyAdvice: "an admin key of the organization (sk-ant-admin…)",
  firstDays: 90,
  request({ baseUrl, key }, { from, to, cursor }) {
    const url = new URL(`${baseUrl}/v1/organizations/cost_report`);
    url.searchParams.set("starting_at", `${from}T00:00:00Z`);
    url.searchParams.set("ending_at", `${to}T00:00:00Z`);
    url.searchParams.set("bucket_width", "1d");
    url.searchParams.set("limit", String(pageDays));
    for (const by of ["workspace_id", "description"]) url.searchParams.append("group_by[]", by);
    if (cursor !== null) url.searchParams.set("page", cursor);
    return { url, headers: { "x-api-key": key, "anthropic-version": "2023-06-01" } };
  },
  readPage: (page) =>
    readBuckets(page, {
      format: anthropicPages,
      startOf: ({ starting_at }) => readMoment(textOf(starting_at) ?? "")?.ms ?? Number.NaN,
    }),
};
