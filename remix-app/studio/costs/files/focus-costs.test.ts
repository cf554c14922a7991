import { expect, test } from "vitest";
import { costLines, readCostText } from "../../../testing/cost-file-lines.ts";
import { readCostFile } from "./read-cost-file.ts";

// From FinOps-Open-Cost-and-Usage-Spec/FOCUS-Sample-Data, FOCUS-1.0/focus_sample.csv. It has NULLs, quoted strings, and
// times with a space.
const sample = [
  '"AvailabilityZone","BilledCost","BillingAccountId","BillingCurrency","BillingPeriodEnd","BillingPeriodStart","ChargeCategory","ChargeClass","ChargePeriodEnd","ChargePeriodStart","EffectiveCost","ProviderName","ServiceName","SubAccountId","Tags"',
  'NULL,0.00000080000,"1234567890123","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Usage",NULL,"2024-09-18 23:00:00","2024-09-18 22:00:00",0.00000000000,"AWS","Amazon Simple Queue Service","51738928782",NULL',
  'NULL,0.00001605990,"1234567890123","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Usage",NULL,"2024-09-19 00:00:00","2024-09-18 23:00:00",0.00000000000,"AWS","Amazon Simple Queue Service","51738928782","{""application"": ""Bright,\nLens""}"',
  'NULL,-0.5,"1234567890123","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Credit","Correction","2024-08-04 00:00:00","2024-08-03 00:00:00",0,"AWS","Amazon Bedrock",NULL,NULL',
  'NULL,0.00001500000,"/providers/Microsoft.Billing/billingAccounts/8611537","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Usage",NULL,"2024-09-05 00:00:00","2024-09-04 00:00:00",0,"Microsoft","Storage Accounts","/subscriptions/64e355d7-997c-491d-b0c1-8414dccfcf42",NULL',
  'NULL,0.01200000000,"20209880","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Usage",NULL,"2024-09-21 18:00:00","2024-09-21 17:00:00",0,"Oracle","COMPUTE","ocid6.tenancy.oc6..aaaa",NULL',
];

test("the FOCUS specification's sample data is read, and a correction of an earlier month is assigned to the bill's first day", async () => {
  const file = await readCostText(sample);
  expect([file.formatName, file.rows]).toEqual(["a FOCUS export", 5]);
  expect(costLines(file)).toEqual([
    "aws 2024-09-01 1234567890123: -0.5 USD, Amazon Bedrock",
    "aws 2024-09-18 51738928782: 0.0000168599 USD, Amazon Simple Queue Service",
    "azure 2024-09-04 /subscriptions/64e355d7-997c-491d-b0c1-8414dccfcf42: 0.000015 USD, Storage Accounts",
    "oracle 2024-09-21 ocid6.tenancy.oc6..aaaa: 0.012 USD, COMPUTE",
  ]);
});

test("a FOCUS file with several providers can be read for one of them", async () => {
  const bytes = new TextEncoder().encode(sample.join("\n"));
  const read = (provider: string) => readCostFile(bytes, { fileName: "focus.csv", provider });
  expect((await read("AWS")).providers.map(({ provider }) => provider)).toEqual(["aws"]);
  await expect(read("gcp")).rejects.toThrow("several providers (aws, azure, oracle), but none for gcp");
});

const header =
  "BilledCost,BillingCurrency,BillingPeriodStart,BillingPeriodEnd,ChargeCategory,ChargePeriodStart,ChargePeriodEnd";
const october = "2026-10-01T00:00:00Z,2026-11-01T00:00:00Z";

// FOCUS 1.3 names the provider ServiceProviderName: https://focus.finops.org/focus-specification/v1-3/
test.each(["ProviderName", "ServiceProviderName", "provider_name", "PROVIDERNAME"])(
  "the provider of a FOCUS file is read from column %s",
  async (column) => {
    const file = await readCostText([
      `${header},${column},BillingAccountId`,
      `12.5,EUR,${october},Usage,2026-10-05T00:00:00Z,2026-10-06T00:00:00Z,OpenAI,acct 1`,
    ]);
    expect(costLines(file)).toEqual(["openai 2026-10-05 acct 1: 12.5 EUR, null"]);
  },
);

// Google's FOCUS view splits its billing export into UTC hours, but its months are in Pacific time.
// https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/focus
test("hourly FOCUS lines from Google are assigned to Pacific days, and lines for whole UTC days keep their day", async () => {
  const line = (start: string, end: string) => `1,USD,${october},Usage,${start},${end},Google Cloud,my-project`;
  const file = await readCostText([
    `${header},ProviderName,SubAccountId`,
    line("2026-10-03T06:00:00Z", "2026-10-03T07:00:00Z"),
    line("2026-10-03T07:00:00Z", "2026-10-03T08:00:00Z"),
    line("2026-10-05T00:00:00Z", "2026-10-06T00:00:00Z"),
    line("2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"),
  ]);
  expect(file.providers[0]?.timeZone).toBe("America/Los_Angeles");
  expect(costLines(file)).toEqual([
    "gcp 2026-10-02 my-project: 1 USD, null",
    "gcp 2026-10-03 my-project: 1 USD, null",
    "gcp 2026-10-05 my-project: 1 USD, null",
    "gcp 2026-10-31 my-project: 1 USD, null",
  ]);
  expect(file.notes).toEqual([]);
});

// Azure's exports write times without seconds.
test("FOCUS times may omit seconds, and lines that span a month are assigned to its first day", async () => {
  const file = await readCostText([
    `${header},ProviderName,SubAccountId`,
    "-3,USD,2026-10-01T00:00Z,2026-11-01T00:00Z,Tax,2026-10-01T00:00Z,2026-11-01T00:00Z,Microsoft,sub",
  ]);
  expect(costLines(file)).toEqual(["azure 2026-10-01 sub: -3 USD, null"]);
  expect(file.notes).toEqual(["1 line spans several days and counts on the first day."]);
});

test("a FOCUS file without billed costs is rejected, and the message names the column", async () => {
  await expect(
    readCostText(["EffectiveCost,BillingCurrency,ChargePeriodStart,ProviderName", "1,USD,2026-10-01,AWS"]),
  ).rejects.toThrow("This looks like a FOCUS export, but column BilledCost is missing.");
  await expect(
    readCostText([`${header},ProviderName`, `NULL,USD,${october},Usage,2026-10-01,2026-10-02,AWS`]),
  ).rejects.toThrow("Row 2: column BilledCost is empty.");
  await expect(readCostText([`${header},ProviderName,BilledCost`, "1"])).rejects.toThrow(
    "Column BilledCost appears twice in the file.",
  );
});
