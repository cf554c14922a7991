import { expect, test } from "vitest";
import { costLines, readCostText } from "../../../testing/cost-file-lines.ts";

// A report as in https://platform.claude.com/docs/en/api/admin/cost_report/retrieve: amounts in cents, as strings.
const result = {
  amount: "123.45",
  context_window: "0-200k",
  cost_type: "tokens",
  currency: "USD",
  description: "Claude Sonnet 4 Usage - Input Tokens",
  model: "claude-sonnet-4-20250514",
  service_tier: "standard",
  token_type: "uncached_input_tokens",
  workspace_id: "wrkspc_01JwQvzr7rXLA5AGx3HKfFUJ",
};
const report = (...results: object[]) => ({
  data: [
    {
      starting_at: "2026-10-01T00:00:00Z",
      ending_at: "2026-10-02T00:00:00Z",
      results: results.map((one) => ({ ...result, ...one })),
    },
  ],
  has_more: false,
  next_page: null,
});
const read = (value: unknown) => readCostText([JSON.stringify(value)], "cost_report.json");

test("Anthropic amounts in cents are read exactly, by workspace and model", async () => {
  const file = await read(
    report({}, { amount: "0.000000000001" }, { amount: "-100", workspace_id: null, model: null }),
  );
  expect(file.formatName).toBe("Anthropic’s cost report");
  expect(costLines(file)).toEqual([
    "anthropic 2026-10-01 null: -1 USD, Claude Sonnet 4 Usage - Input Tokens",
    "anthropic 2026-10-01 wrkspc_01JwQvzr7rXLA5AGx3HKfFUJ: 1.23450000000001 USD, claude-sonnet-4-20250514",
  ]);
});

test.each([
  [report({ amount: "1.2.3" }), 'Value 1.data[0].results[0].amount is "1.2.3", which isn’t an amount'],
  [report({ currency: "JPY" }), "results[0].currency is JPY. Import a cost report in USD"],
  [{ ...report({}), has_more: true, next_page: "page_2" }, "Pages are missing"],
  [{ type: "error", error: { type: "authentication_error" } }, "a provider’s error message, not costs"],
  [
    { data: [{ starting_at: "2026-10-01T00:00:00Z", results: [{ uncached_input_tokens: 1, output_tokens: 2 }] }] },
    "This is Anthropic’s usage report, which has no amounts",
  ],
])("rejects the malformed Anthropic report %#", async (value, message) => {
  await expect(read(value)).rejects.toThrow(message);
});

// The Cost page's columns, as in a public importer's test: axigatelabs/axigate-finops, internal/ledger/anthropic.
const header =
  "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type,inference_geo,speed,api_key_id,api_key_status";

test("Anthropic's Cost page CSV is read in dollars, with the charged price and not the list price", async () => {
  const file = await readCostText([
    header,
    "2026-08-04,Claude Haiku 4.5,Default,demo-key,message,≤ 200k,input_no_cache,0.05,0.05,token,not_available,,apikey_01AAA,archived",
    "2026-08-04,Claude Haiku 4.5,Default,demo-key,message,≤ 200k,output,0.02,0.02,token,not_available,,apikey_01AAA,archived",
    "2026-08-05,Claude Sonnet 4.5,My Team,demo-key,message,≤ 200k,input_cache_read,0.10,1.00,token,not_available,,apikey_01AAA,archived",
  ]);
  expect(costLines(file)).toEqual([
    "anthropic 2026-08-04 default: 0.07 USD, Claude Haiku 4.5",
    "anthropic 2026-08-05 My Team: 0.1 USD, Claude Sonnet 4.5",
  ]);
});

test("Anthropic's Usage page CSV is rejected because it has no amounts, and the message says which page to use", async () => {
  await expect(
    readCostText(["usage_date_utc,model_version,usage_input_tokens_no_cache,usage_output_tokens", "2026-08-04,m,1,2"]),
  ).rejects.toThrow("column cost_usd is missing. Open the Cost page");
});
