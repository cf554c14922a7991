import { textOf } from "../../studio/costs/files/json-values.ts";
import { openAiPages } from "../../studio/costs/files/openai-costs.ts";
import type { CostProvider } from "./cost-provider.ts";
import { readBuckets } from "./read-buckets.ts";

/** Days in a page; 1 to 180 are allowed. Few, because a day has a result for each project and line item. */
const pageDays = 10;

/**
 * OpenAI's costs by project and line item.
 * https://developers.openai.com/api/reference/resources/admin/subresources/organization/subresources/usage/methods/costs
 */
export const openAi: CostProvider = {
  id: "openai",
  name: "OpenAI",
  settings: { key: "OPENAI_ADMIN_KEY", url: "OPENAI_BASE_URL" },
  keyAdvice: "an admin key of the organization (sk-admin-…)",
  firstDays: 90,
  request({ baseUrl, key }, { from, to, cursor }) {
    const url = new URL(`${baseUrl}/organization/costs`);
    url.searchParams.set("start_time", String(Date.parse(from) / 1_000));
    url.searchParams.set("end_time", String(Date.parse(to) / 1_000));
    url.searchParams.set("bucket_width", "1d");
    url.searchParams.set("limit", String(pageDays));
    for (const by of ["project_id", "line_item"]) url.searchParams.append("group_by[]", by);
    if (cursor !== null) url.searchParams.set("page", cursor);
    return { url, headers: { authorization: `Bearer ${key}` } };
  },
  readPage: (page) =>
    readBuckets(page, { format: openAiPages, startOf: ({ start_time }) => Number(textOf(start_time) ?? "") * 1_000 }),
};
