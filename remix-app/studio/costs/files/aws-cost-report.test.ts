import { expect, test } from "vitest";
import { costLines, readCostText } from "../../../testing/cost-file-lines.ts";

// Columns and times follow project-koku/nise (nise/generators/aws/aws_generator.py), which imitates real reports. Line
// types follow https://docs.aws.amazon.com/cur/latest/userguide/Lineitem-columns.html
const legacy =
  "identity/LineItemId,identity/TimeInterval,bill/BillingEntity,bill/PayerAccountId,bill/BillingPeriodStartDate,bill/BillingPeriodEndDate,lineItem/UsageAccountId,lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/ProductCode,lineItem/CurrencyCode,lineItem/UnblendedCost,lineItem/BlendedCost,product/ProductName,resourceTags/user:app";
const row = ({
  type = "Usage",
  start = "2026-10-03T00:00:00Z",
  end = "2026-10-03T01:00:00Z",
  cost = "1",
  account = "123456789012",
  currency = "USD",
  name = "Amazon Bedrock",
}) =>
  `id,${start}/${end},AWS,999999999999,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,${account},${type},${start},${end},AmazonBedrock,${currency},${cost},77,${name},"a,b"`;

test("all AWS line types add up: savings plans, reservations, credits, refunds, discounts and tax", async () => {
  const file = await readCostText([
    legacy,
    row({ cost: "0.0000000001" }),
    row({ cost: "10", type: "SavingsPlanCoveredUsage" }),
    row({ cost: "-10", type: "SavingsPlanNegation" }),
    row({ cost: "2.5", type: "SavingsPlanRecurringFee" }),
    row({ cost: "0.3", type: "RIFee" }),
    row({ cost: "-1.2E-7", type: "EdpDiscount" }),
    row({ cost: "-0.5", type: "Credit" }),
    row({ cost: "-4", type: "Refund" }),
    row({ cost: "0.7", type: "Tax", name: "" }),
    row({ cost: "3", account: "210987654321", currency: "EUR" }),
    row({ cost: "5", account: "" }),
  ]);
  expect(file.formatName).toBe("an AWS Cost and Usage Report");
  expect(file.providers[0]).toMatchObject({ provider: "aws", timeZone: "UTC", currencies: ["EUR", "USD"] });
  expect(costLines(file)).toEqual([
    "aws 2026-10-03 123456789012: -1.7000001199 USD, Amazon Bedrock",
    "aws 2026-10-03 123456789012: 0.7 USD, AmazonBedrock",
    "aws 2026-10-03 210987654321: 3 EUR, Amazon Bedrock",
    "aws 2026-10-03 999999999999: 5 USD, Amazon Bedrock",
  ]);
  expect(file.skipped).toEqual([]);
});

test("an AWS line outside the billing period is assigned to the period's nearest day, and a line of several days to its first day", async () => {
  const file = await readCostText([
    legacy,
    row({ start: "2026-09-15T00:00:00Z", end: "2026-09-15T01:00:00Z", type: "Refund", cost: "-1" }),
    row({ start: "2026-11-02T00:00:00Z", end: "2026-11-02T01:00:00Z", type: "Fee", cost: "2" }),
    row({ start: "2026-10-01T00:00:00Z", end: "2026-10-31T23:59:59Z", type: "RIFee", cost: "3" }),
  ]);
  expect(costLines(file)).toEqual([
    "aws 2026-10-01 123456789012: 2 USD, Amazon Bedrock",
    "aws 2026-10-31 123456789012: 2 USD, Amazon Bedrock",
  ]);
  expect(file.notes).toEqual([
    "2 lines are outside the billing period and count on its nearest day.",
    "1 line spans several days and counts on the first day.",
  ]);
});

// https://docs.aws.amazon.com/cur/latest/userguide/table-dictionary-cur2.html: `product` is a map.
test("version 2.0 of the AWS report is read, with underscores in column names and products in a map", async () => {
  const file = await readCostText([
    "bill_payer_account_id,line_item_usage_account_id,line_item_line_item_type,line_item_usage_start_date,line_item_currency_code,line_item_unblended_cost,line_item_product_code,product,product_servicecode",
    '999999999999,123456789012,Usage,2026-10-03T00:00:00.000Z,USD,0.25,a1b2c3d4,"{""product_name"":""Claude 3 \\""Sonnet\\"" (Amazon Bedrock Edition)"",""region"":""us-east-1""}",AmazonBedrock',
    "999999999999,123456789012,Usage,2026-10-03 00:00:00.000,USD,0.5,AmazonBedrock,{},AmazonBedrock",
  ]);
  expect(costLines(file)).toEqual([
    'aws 2026-10-03 123456789012: 0.25 USD, Claude 3 "Sonnet" (Amazon Bedrock Edition)',
    "aws 2026-10-03 123456789012: 0.5 USD, AmazonBedrock",
  ]);
});

test.each([
  [[row({ cost: "n/a" })], 'Row 2: column lineItem/UnblendedCost is "n/a", which isn’t an amount.'],
  [[row({}), row({ cost: "" })], "Row 3: column lineItem/UnblendedCost is empty."],
  [[row({ currency: "US$" })], 'Row 2: the currency is "US$", which isn’t a code'],
  [[row({ start: "03.10.2026" })], 'Row 2: column lineItem/UsageStartDate is "03.10.2026", which isn’t a time'],
  [[row({ account: "1.23457E+11" })], 'Row 2: the account is "1.23457E+11", which a spreadsheet program shortened.'],
  [[row({}), row({}).slice(0, 150)], "Row 3 has 10 of 16 columns. The file is incomplete or damaged."],
  [[], "The file has a header but no costs"],
])("rejects the invalid AWS report %# and names the row and column", async (rows, message) => {
  await expect(readCostText([legacy, ...rows])).rejects.toThrow(message);
});

test("an AWS report without currencies is refused", async () => {
  const header =
    "line_item_usage_account_id,line_item_line_item_type,line_item_usage_start_date,line_item_unblended_cost";
  await expect(readCostText([header, "123456789012,Usage,2026-09-01T00:00:00Z,0.01"])).rejects.toThrow(
    "This looks like an AWS Cost and Usage Report, but column lineItem/CurrencyCode is missing.",
  );
});
