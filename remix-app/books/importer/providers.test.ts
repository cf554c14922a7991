import { expect, test } from "vitest";
import { formatDecimal } from "#shared/decimal.ts";
import { parseExactJson } from "#shared/exact-json.ts";
import type { JsonObject } from "../../studio/costs/files/json-values.ts";
import { anthropic } from "./anthropic.ts";
import type { CostProvider } from "./cost-provider.ts";
import { openAi } from "./openai.ts";
import { openRouter } from "./openrouter.ts";

const access = { baseUrl: "https://provider.test/base", key: "key-1" };
const query = { from: "2026-10-01", to: "2026-10-03", cursor: "page_2" };

function convert(provider: CostProvider, text: string, today = "2026-10-03") {
  const { days, ...page } = provider.readPage(parseExactJson(text) as JsonObject, { today });
  const lines = days.map(({ day, lines }) => [
    day,
    ...lines.map((line) =>
      "skipped" in line
        ? line.skipped
        : `${line.account} ${line.service} ${formatDecimal(line.amount)} ${line.currency}`,
    ),
  ]);
  return { ...page, lines };
}

// https://developers.openai.com/api/reference/resources/admin/subresources/organization/subresources/usage/methods/costs
// Some amounts are numbers and some are strings, and `limit` above 180 is refused
// (https://github.com/langwatch/langwatch/issues/7579).
test("reads OpenAI's costs by project and line item", () => {
  const { url, headers } = openAi.request(access, query);
  expect([url.origin + url.pathname, headers]).toEqual([
    "https://provider.test/base/organization/costs",
    { authorization: "Bearer key-1" },
  ]);
  expect([...url.searchParams]).toEqual([
    ["start_time", "1790812800"],
    ["end_time", "1790985600"],
    ["bucket_width", "1d"],
    ["limit", "10"],
    ["group_by[]", "project_id"],
    ["group_by[]", "line_item"],
    ["page", "page_2"],
  ]);
  const page = `{"object": "page", "data": [
    {"object": "bucket", "start_time": 1790812800, "end_time": 1790899200, "results": [
      {"object": "organization.costs.result", "amount": {"value": 0.13080438340307526, "currency": "usd"}, "line_item": "gpt-4o, input", "project_id": "proj_1", "organization_id": "org-1"},
      {"object": "organization.costs.result", "amount": {"value": "1.5e-7", "currency": "usd"}, "line_item": null, "project_id": null, "organization_id": "org-1"}
    ]},
    {"object": "bucket", "start_time": 1790899200, "end_time": 1790985600, "results": []}
  ], "has_more": true, "next_page": "page_3"}`;
  expect(convert(openAi, page)).toEqual({
    hasMore: true,
    next: "page_3",
    lines: [
      ["2026-10-01", "proj_1 gpt-4o, input 0.13080438340307526 USD", "org-1 null 0.00000015 USD"],
      ["2026-10-02"],
    ],
  });
});

// https://platform.claude.com/docs/en/api/admin/cost_report/retrieve: "123.45" in USD is 1.2345 USD, and the default
// workspace has no id.
test("reads Anthropic's costs by workspace and model", () => {
  const { url, headers } = anthropic.request(access, query);
  expect([url.origin + url.pathname, headers]).toEqual([
    "https://provider.test/base/v1/organizations/cost_report",
    { "x-api-key": "key-1", "anthropic-version": "2023-06-01" },
  ]);
  expect([...url.searchParams]).toEqual([
    ["starting_at", "2026-10-01T00:00:00Z"],
    ["ending_at", "2026-10-03T00:00:00Z"],
    ["bucket_width", "1d"],
    ["limit", "31"],
    ["group_by[]", "workspace_id"],
    ["group_by[]", "description"],
    ["page", "page_2"],
  ]);
  const page = `{"data": [{"starting_at": "2026-10-01T00:00:00Z", "ending_at": "2026-10-02T00:00:00Z", "results": [
    {"currency": "USD", "amount": "123.78912", "workspace_id": "wrkspc_01JwQvzr7rXLA5AGx3HKfFUJ", "description": "Claude Sonnet 4 Usage - Input Tokens", "cost_type": "tokens", "context_window": "0-200k", "model": "claude-sonnet-4-20250514", "service_tier": "standard", "token_type": "uncached_input_tokens"},
    {"currency": "USD", "amount": "5", "workspace_id": null, "description": null, "cost_type": "web_search", "context_window": null, "model": null, "service_tier": null, "token_type": null}
  ]}], "has_more": false, "next_page": null}`;
  expect(convert(anthropic, page)).toEqual({
    hasMore: false,
    next: null,
    lines: [
      [
        "2026-10-01",
        "wrkspc_01JwQvzr7rXLA5AGx3HKfFUJ claude-sonnet-4-20250514 1.2378912 USD",
        "null web_search 0.05 USD",
      ],
    ],
  });
});

// https://openrouter.ai/docs/api/api-reference/analytics/get-user-activity-grouped-by-endpoint: one page of the last 30
// completed UTC days. usage is "Total cost in USD (OpenRouter credits spent)".
test("reads OpenRouter's activity by model, without what other providers charge", () => {
  const { url, headers } = openRouter.request(access, query);
  expect([url.href, headers]).toEqual(["https://provider.test/base/activity", { authorization: "Bearer key-1" }]);
  const item = (date: string, usage: string) =>
    `{"byok_usage_inference": 0.012, "completion_tokens": 125, "date": "${date}", "endpoint_id": "550e8400-e29b-41d4-a716-446655440000", "model": "openai/gpt-4.1", "model_permaslug": "openai/gpt-4.1-2025-04-14", "prompt_tokens": 50, "provider_name": "OpenAI", "reasoning_tokens": 25, "requests": 5, "usage": ${usage}}`;
  const { lines, ...page } = convert(
    openRouter,
    `{"data": [${item("2026-10-02", "0.015")}, ${item("2026-10-02", "1e-9")}, ${item("2026-10-03", "9")}]}`,
  );
  expect(page).toEqual({ hasMore: false, next: null });
  expect(lines).toHaveLength(29);
  expect([lines[0], ...lines.slice(-2)]).toEqual([
    ["2026-09-04"],
    ["2026-10-01"],
    ["2026-10-02", "null openai/gpt-4.1 0.015 USD", "null openai/gpt-4.1 0.000000001 USD"],
  ]);
});
