import { expect, test } from "vitest";
import { costLines, readCostText } from "../../../testing/cost-file-lines.ts";

// The table's fields: https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage
// Credits are negative amounts; project-koku/nise (nise/generators/gcp/gcp_generator.py) writes the same columns.
const header =
  "billing_account_id,service.id,service.description,usage_start_time,usage_end_time,project.id,cost,currency,currency_conversion_rate,credits,invoice.month,cost_type";
const row = ({
  start = "2026-10-03 07:00:00 UTC",
  end = "2026-10-03 08:00:00 UTC",
  project = "my-project",
  cost = "1",
  credits = "[]",
  month = "202610",
  type = "regular",
}) =>
  `01A-02B-03C,C7E2,Vertex AI,${start},${end},${project},${cost},EUR,0.92,"${credits.replaceAll('"', '""')}",${month},${type}`;

test("Google's billing table saved as CSV is read with its credits, by Pacific day", async () => {
  const credits = JSON.stringify([
    { name: "Committed use", amount: -0.25 },
    { name: "Promotion", amount: "-1.2E-7" },
  ]);
  const file = await readCostText([
    header,
    row({ cost: "1.2E-7", start: "2026-10-03 06:59:59 UTC" }),
    row({ cost: "0.5", credits }),
    row({ credits: "{}", cost: "0.1", project: "", type: "tax" }),
    row({ credits: "" }),
  ]);
  expect(file.formatName).toBe("a Google Cloud billing export");
  expect(file.providers[0]).toMatchObject({ provider: "gcp", timeZone: "America/Los_Angeles", currencies: ["EUR"] });
  expect(costLines(file)).toEqual([
    "gcp 2026-10-02 my-project: 0.00000012 EUR, Vertex AI",
    "gcp 2026-10-03 01A-02B-03C: 0.1 EUR, Vertex AI",
    "gcp 2026-10-03 my-project: 1.24999988 EUR, Vertex AI",
  ]);
});

// Invoice months differ from usage months around midnight Pacific: github.com/project-koku/koku/issues/3098
const dated = (day: string, cost: string, month: string) =>
  row({ start: `${day} 12:00:00 UTC`, end: `${day} 13:00:00 UTC`, cost, month });
const totals = async (...lines: string[]) =>
  costLines(await readCostText([header, ...lines])).map((line) =>
    line.replace(/^gcp (\S+) my-project: (\S+) .*/, "$1 $2"),
  );

test.for<[string, string[], string[]]>([
  [
    "July's whole days, with a line of August's invoice",
    [dated("2026-07-30", "40", "202607"), dated("2026-07-31", "100", "202607"), dated("2026-07-31", "7", "202608")],
    ["2026-07-30 40", "2026-07-31 107"],
  ],
  [
    "August's whole days, with a line of July's invoice",
    [dated("2026-08-01", "20", "202608"), dated("2026-08-01", "3", "202607"), dated("2026-08-02", "50", "202608")],
    ["2026-08-01 23", "2026-08-02 50"],
  ],
  ["one day with lines of the earlier invoice only", [dated("2026-08-01", "3", "202607")], ["2026-08-01 3"]],
  [
    "one invoice, with lines before and after its month",
    [dated("2026-06-30", "2", "202607"), dated("2026-07-15", "5", "202607"), dated("2026-08-01", "3", "202607")],
    ["2026-07-01 2", "2026-07-15 5", "2026-07-31 3"],
  ],
  [
    "two invoices, with lines before and between their months",
    [
      dated("2026-06-30", "2", "202607"),
      dated("2026-07-31", "7", "202608"),
      dated("2026-08-01", "3", "202607"),
      dated("2026-08-15", "5", "202608"),
    ],
    ["2026-07-01 2", "2026-07-31 7", "2026-08-01 3", "2026-08-15 5"],
  ],
])("a Google billing table never moves lines to days that another file holds: %s", async ([, lines, expected]) => {
  expect(await totals(...lines)).toEqual(expected);
});

test("adds up Google's credits in a flattened column, including rows that contain only a credit", async () => {
  const file = await readCostText([
    "billing_account_id,service_description,usage_start_time,project_id,cost,currency,credits.amount",
    "01A,Vertex AI,2026-10-03T12:00:00,my-project,10,USD,-2",
    ",,,,,,-3.5",
    "01A,Vertex AI,2026-10-04T12:00:00,my-project,1,USD,",
  ]);
  expect(costLines(file)).toEqual([
    "gcp 2026-10-03 my-project: 4.5 USD, Vertex AI",
    "gcp 2026-10-04 my-project: 1 USD, Vertex AI",
  ]);
  // Like credits, labels and tags are repeated fields. If a line has more labels than credits, some rows contain only
  // labels.
  const labelled = await readCostText([
    "usage_start_time,project_id,cost,currency,credits.amount,labels.key,tags.key",
    "2026-10-03T12:00:00,my-project,10,USD,-2,team,env",
    ",,,,,owner,",
    ",,,,-1,,",
  ]);
  expect(costLines(labelled)).toEqual(["gcp 2026-10-03 my-project: 7 USD, null"]);
  expect(labelled.skipped).toEqual([{ what: "additional labels of a line", rows: 1 }]);
  const without = await readCostText(["usage_start_time,cost,currency", "2026-10-03T12:00:00Z,1,USD"]);
  expect(without.notes[0]).toContain("The file has no credits");
});

test.each([
  [row({ credits: "{'amount': -1}" }), "Row 2: column credits isn’t JSON"],
  [row({ credits: '[{"name": "Promotion"}]' }), "Row 2: column credits has a credit without an amount."],
  [row({ credits: '[{"amount": "x"}]' }), 'Row 2: column credits, amount is "x", which isn’t an amount.'],
  [row({ cost: "" }), "Row 2: column cost is empty."],
])("rejects the invalid Google billing row %#", async (line, message) => {
  await expect(readCostText([header, line])).rejects.toThrow(message);
});

const nested = {
  billing_account_id: "01A-02B-03C",
  service: { id: "C7E2", description: "Vertex AI" },
  usage_start_time: "2026-10-03 07:00:00 UTC",
  usage_end_time: "2026-10-03 08:00:00 UTC",
  project: { id: "my-project", labels: [] },
  cost: 0.3,
  currency: "USD",
  credits: [{ name: "Promotion", amount: -0.1 }],
  invoice: { month: "202610" },
};

test("Google's JSON rows may be separate lines or a list, and their amounts numbers or strings", async () => {
  const texts = { ...nested, cost: "1E-3", credits: [{ amount: "-5e-4" }], project: null };
  const expected = [
    "gcp 2026-10-03 01A-02B-03C: 0.0005 USD, Vertex AI",
    "gcp 2026-10-03 my-project: 0.2 USD, Vertex AI",
  ];
  const inLines = await readCostText(
    [nested, texts].map((one) => JSON.stringify(one)),
    "export.json",
  );
  expect(costLines(inLines)).toEqual(expected);
  expect(costLines(await readCostText([JSON.stringify([nested, texts])], "export.json"))).toEqual(expected);
  await expect(readCostText([JSON.stringify({ ...nested, cost: null })], "export.json")).rejects.toThrow(
    "Value 1.cost is null, which isn’t an amount.",
  );
});

// A cost table as downloaded from Google's console. Its format is taken from the tests of a public importer: "ducat",
// adapters/gcp_csv.py.
const preamble = [
  "Invoice number,1234567890,",
  "Invoice date,2026-06-30,",
  "Due date,2026-07-30,",
  "Billing ID,0000-0000-0000,",
  "Billing account ID,0A0A0A-0B0B0B-0C0C0C,",
  "Currency,AUD,",
  "Currency exchange rate,1.5,",
  'Total amount due,"$1,010.00",',
];
const tableHeader =
  "Billing account name,Billing account ID,Project name,Project ID,Project hierarchy,Service description,Service ID,SKU description,SKU ID,Consumption model description,Credit type,Cost type,Usage start date,Usage end date,Usage amount,Usage unit,Unrounded Cost ($),Cost ($)";
const tableRow = (start: string, cost: string, credit = "") =>
  `Example,0A0A0A-0B0B0B-0C0C0C,acme-prod,acme-prod,example.com,Vertex AI,6F81,Tokens,ABC1,Default,${credit},Usage,${start},2026-06-29,"6,282.708",count,${cost},9.99`;
const table = (...rows: string[]) => readCostText([...preamble, tableHeader, ...rows]);

test("a Google cost table is read without its total line, and its costs get the invoice's month and currency", async () => {
  const file = await table(
    tableRow("2026-06-01", '"1,500.005"'),
    tableRow("2026-05-30", "9.49"),
    tableRow("2026-06-01", "-499.5", "Promotional credit"),
    ",,,,,,,,,,,Rounding error,,,,,0.005,0.00",
    ",,,,,,,,,,,Total,,,,,1009.995,1010.00",
  );
  expect(file.formatName).toBe("a Google Cloud cost table");
  expect(costLines(file)).toEqual([
    "gcp 2026-06-01 acme-prod: 1009.995 AUD, Vertex AI",
    "gcp 2026-06-30 null: 0.005 AUD, Rounding error",
  ]);
  expect(file.skipped).toEqual([{ what: "totals", rows: 1 }]);
  expect(file.notes).toEqual([
    "1 line is outside the billing period and counts on its nearest day.",
    "2 lines span several days and count on the first day.",
  ]);
});

test("a Google cost table that matches neither its total nor the amount due is read with a note on each mismatch", async () => {
  const { notes } = await table(tableRow("2026-06-29", "1"), ",,,,,,,,,,,Total,,,,,2,2.00");
  expect(notes).toEqual([
    "The lines don’t add up to the file’s total. Check that the file is complete.",
    "The invoice total is 1010, but the lines add up to 1. Download the table with savings and taxes.",
  ]);
});

test("reads the amounts of a Google cost table from its unrounded subtotals, if it has them", async () => {
  const file = await readCostText([
    "Currency,USD,,,,,",
    "Project ID,Service description,Usage start date,Cost ($),Savings programs ($),Unrounded subtotal ($),Subtotal ($)",
    "acme,Vertex AI,2026-06-01,10.00,-2.50,7.501,7.50",
    ",,,,Subtotal,7.501,7.50",
  ]);
  expect(costLines(file)).toEqual(["gcp 2026-06-01 acme: 7.501 USD, Vertex AI"]);
});

test("a Google cost table without dates or a currency is rejected, and the message says what is missing", async () => {
  await expect(
    readCostText([
      "Service description,Service ID,SKU description,SKU ID,Usage amount,Usage unit,Cost ($),Unrounded subtotal ($),Subtotal ($)",
      "Gemini API,X,Tokens,Y,10,count,1,1,1",
    ]),
  ).rejects.toThrow(
    "column Usage start date or Usage date or Date is missing. Download the cost table of the invoice month",
  );
  await expect(readCostText([tableHeader, tableRow("2026-06-01", "1")])).rejects.toThrow(
    "The file doesn’t state its currency.",
  );
});
