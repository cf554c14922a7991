import { expect, test } from "vitest";
import { costLines, readCostText } from "../../../testing/cost-file-lines.ts";
import { readCostFiles } from "./read-cost-file.ts";

// A page as in https://developers.openai.com/api/reference/resources/admin/subresources/organization/subresources/usage/methods/costs
const bucket = (start: number, results: object[]) => ({
  object: "bucket",
  start_time: start,
  end_time: start + 86_400,
  results: results.map((result) => ({
    object: "organization.costs.result",
    line_item: null,
    project_id: null,
    ...result,
  })),
});
const usd = (value: unknown) => ({ amount: { value, currency: "usd" } });
const page = (data: object[], next: string | null = null) => ({
  object: "page",
  data,
  has_more: next !== null,
  next_page: next,
});
/** 2024-11-01 and the day after it. */
const [first, second] = [1730419200, 1730505600];
const read = (value: unknown) => readCostText([JSON.stringify(value, null, 2)], "costs.json");
const costs = async (value: unknown) => costLines(await read(value));

test("a page of OpenAI costs is read by project and line item, with exact amounts", async () => {
  const text = JSON.stringify(
    page([
      bucket(first, [
        { ...usd(0.06), project_id: "proj_a", line_item: "gpt-4o, input" },
        { ...usd("AMOUNT"), project_id: "proj_a", line_item: "gpt-4o, input" },
        { ...usd("0.1"), project_id: "proj_b", organization_id: "org-1" },
      ]),
      bucket(second, []),
    ]),
  ).replace('"AMOUNT"', "1.2E-7");
  const file = await readCostText([text], "costs.json");
  expect([file.formatName, file.providers[0]?.timeZone, file.rows]).toEqual(["OpenAI costs", "UTC", 3]);
  expect(costLines(file)).toEqual([
    "openai 2024-11-01 proj_a: 0.06000012 USD, gpt-4o, input",
    "openai 2024-11-01 proj_b: 0.1 USD, null",
  ]);
});

test("an OpenAI result without a project is assigned to its organization, or to no account if it has no organization either", async () => {
  const data = [bucket(first, [{ ...usd(1), organization_id: "org-1" }]), bucket(second, [usd(2)])];
  expect(await costs(page(data))).toEqual([
    "openai 2024-11-01 org-1: 1 USD, null",
    "openai 2024-11-02 null: 2 USD, null",
  ]);
});

test("pages of OpenAI costs may be a JSON list, one page per line, or concatenated", async () => {
  const pages = [page([bucket(first, [usd(1)])], "page_2"), page([bucket(second, [usd(2)])])];
  const expected = ["openai 2024-11-01 null: 1 USD, null", "openai 2024-11-02 null: 2 USD, null"];
  expect(await costs(pages)).toEqual(expected);
  expect(
    costLines(
      await readCostText(
        pages.map((one) => JSON.stringify(one)),
        "costs.jsonl",
      ),
    ),
  ).toEqual(expected);
  expect(
    costLines(
      await readCostText(
        pages.map((one) => JSON.stringify(one, null, 2)),
        "costs.json",
      ),
    ),
  ).toEqual(expected);
  expect(await costs(pages.flatMap(({ data }) => data))).toEqual(expected);
  const files = pages.map((one, n) => ({
    bytes: new TextEncoder().encode(JSON.stringify(one)),
    fileName: `${n}.json`,
  }));
  expect(costLines(await readCostFiles(files))).toEqual(expected);
});

test("pages of OpenAI costs are rejected unless the last one is included", async () => {
  await expect(read(page([bucket(first, [usd(1)])], "page_2"))).rejects.toThrow("Pages are missing");
});

test("a day that appears twice in OpenAI's costs counts once, and is rejected if its costs differ", async () => {
  const file = await read([page([bucket(first, [usd(1)])]), page([bucket(first, [usd(1)])])]);
  expect(costLines(file)).toEqual(["openai 2024-11-01 null: 1 USD, null"]);
  expect(file.notes).toEqual(["One day is in the file more than once. It counts once."]);
  await expect(read([page([bucket(first, [usd(1)])]), page([bucket(first, [usd(2)])])])).rejects.toThrow(
    "1730419200 is in the file twice with different costs",
  );
  const ofProjects = ["a", "b"].map((id) => page([bucket(first, [{ ...usd(1), project_id: id }])]));
  expect(await costs(ofProjects)).toHaveLength(2);
});

test("OpenAI credits reduce their day's cost, and results without an amount are reported", async () => {
  const file = await read(page([bucket(first, [usd(1), usd(-2.5), { amount: null }])]));
  expect(costLines(file)).toEqual(["openai 2024-11-01 null: -1.5 USD, null"]);
  expect(file.skipped).toEqual([{ what: "results without an amount", rows: 1 }]);
});

test.each([
  [usd("1,5"), 'results[0].amount.value is "1,5", which isn’t an amount'],
  [usd(null), "results[0].amount.value is null, which isn’t an amount"],
  [{ amount: { value: 1 } }, 'the currency is "", which isn’t a code'],
  [{ input_tokens: 1, num_model_requests: 1 }, "This is OpenAI’s usage report, which has no amounts"],
])("rejects the invalid OpenAI costs %j", async (result, message) => {
  await expect(read(page([bucket(first, [result])]))).rejects.toThrow(message);
});

// The columns and the amounts with 30 decimals are copied from the dashboard sample of a public importer: "aiecon",
// examples/openai_dashboard_cost_to_aiecon.py and its test.
const header =
  "start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity,quantity_unit,line_item,user_id,api_key_id,project_id,organization_id,project_name,organization_name,user_email,api_source";

test("the CSV of OpenAI's dashboard is read, and its days without costs are reported", async () => {
  const file = await readCostText([
    header,
    "1790467200,1790553600,2026-09-27T00:00:00+00:00,2026-09-28T00:00:00+00:00,,,,,,,,,,,,,",
    "1790553600,1790640000,2026-09-28T00:00:00,2026-09-29T00:00:00,0.003835980000000000000000000000,usd,,,,,,,org-fixture,,Fixture Org,someone@example.com,",
    '1790553600,1790640000,2026-09-28T00:00:00,2026-09-29T00:00:00,0.5,usd,1000,tokens,"gpt-5-nano, input",,key_1,proj_a,org-fixture,Proj A,Fixture Org,someone@example.com,',
  ]);
  expect(costLines(file)).toEqual([
    "openai 2026-09-28 org-fixture: 0.00383598 USD, null",
    "openai 2026-09-28 proj_a: 0.5 USD, gpt-5-nano, input",
  ]);
  expect(file.skipped).toEqual([{ what: "days without costs", rows: 1 }]);
});

test("the activity export of OpenAI's dashboard is rejected, and the message names the missing column", async () => {
  await expect(
    readCostText(["start_time,end_time,num_model_requests,input_tokens,output_tokens,model", "1,2,3,4,5,gpt"]),
  ).rejects.toThrow("column amount_value or amount.value is missing. Open the cost view of OpenAI’s usage dashboard");
});

test("overlapping OpenAI exports are rejected, because their days would count twice", async () => {
  const export_ = (fileName: string, ...rows: string[]) => ({
    fileName,
    bytes: new TextEncoder().encode(
      `${["start_time_iso,amount_value,amount_currency,line_item,project_id", ...rows].join("\n")}\n`,
    ),
  });
  const row = (day: string, project: string, item = "gpt-4o") =>
    `2026-10-${day}T00:00:00+00:00,1,usd,${item},${project}`;
  const first = export_("first.csv", row("01", "proj_a"), row("15", "proj_a"), row("15", "proj_a"));
  const next = export_("next.csv", row("15", "proj_b"), row("15", "proj_a", "o3"), row("16", "proj_a"));
  expect((await readCostFiles([first, next])).rows).toBe(6);
  const overlapping = export_("overlap.csv", row("14", "proj_a"), row("15", "proj_a"));
  await expect(readCostFiles([first, overlapping])).rejects.toThrow(
    "overlap.csv: Row 3: 2026-10-15 is also in first.csv, so it would count twice. Import the files separately.",
  );
});
