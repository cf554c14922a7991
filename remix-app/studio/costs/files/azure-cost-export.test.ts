import { expect, test } from "vitest";
import { costLines, readCostText } from "../../../testing/cost-file-lines.ts";

// From microsoft/finops-toolkit, src/powershell/Tests/Unit/assets/EA_ActualCost_Small.csv, with fewer columns. Amounts
// have 16 digits, tags contain quotes, and dates are MM/DD/YYYY.
test("reads an Azure cost export with the actual costs of an enterprise agreement", async () => {
  const file = await readCostText([
    "BillingAccountId,BillingPeriodStartDate,BillingPeriodEndDate,BillingProfileId,SubscriptionId,SubscriptionName,Date,Product,MeterCategory,Quantity,EffectivePrice,Cost,UnitPrice,BillingCurrency,ConsumedService,AdditionalInfo,Tags,ChargeType,PricingModel",
    '8611537,09/01/2023,09/30/2023,8611537,64e355d7-997c-491d-b0c1-8414dccfcf42,Playground,09/04/2023,Defender,Advanced Data Security,0.03225806,15,0.4838709677419368,15,USD,Microsoft.Sql,"{""ServiceType"":""SQLThreatDetection""}","""CostCenter"": ""1234"",""org"": """"",Usage,OnDemand',
    "8611537,09/01/2023,09/30/2023,8611537,64e355d7-997c-491d-b0c1-8414dccfcf42,Playground,09/04/2023,Defender,Advanced Data Security,0.0001,0.02,0.000002,0.02,USD,MICROSOFT.KEYVAULT,,,Usage,OnDemand",
    "8611537,09/01/2023,09/30/2023,8611537,,,09/21/2023,Reserved VM,Virtual Machines,1,3.25,3.25,3.25,USD,Microsoft.Capacity,,,Purchase,Reservation",
    "8611537,09/01/2023,09/30/2023,8611537,,,08/15/2023,Reserved VM,Virtual Machines,1,3.25,-1.5,3.25,USD,Microsoft.Capacity,,,Refund,Reservation",
  ]);
  expect(file.formatName).toBe("an Azure cost export");
  expect(costLines(file)).toEqual([
    "azure 2023-09-01 8611537: -1.5 USD, Virtual Machines",
    "azure 2023-09-04 64e355d7-997c-491d-b0c1-8414dccfcf42: 0.4838729677419368 USD, Advanced Data Security",
    "azure 2023-09-21 8611537: 3.25 USD, Virtual Machines",
  ]);
});

// The columns follow https://learn.microsoft.com/azure/cost-management-billing/dataset-schema/schema-index and
// project-koku/nise (nise/generators/azure/azure_generator.py).
test.each([
  [
    "date,costInBillingCurrency,costInUsd,billingCurrency,SubscriptionId,meterCategory",
    "10/03/2026,2.5,2.7,EUR,sub,OpenAI",
  ],
  ["SubscriptionGuid,UsageDateTime,MeterCategory,PreTaxCost,Currency", "sub,2026-10-03,OpenAI,2.5,EUR"],
  [
    "SubscriptionGuid,Date,MeterCategory,CostInBillingCurrency,BillingCurrencyCode",
    "sub,2026-10-03T00:00:00Z,OpenAI,2.5,EUR",
  ],
  ["SubscriptionId,UsageDate,ServiceName,CostUSD,Cost,Currency", "sub,20261003,OpenAI,2.7,2.5,EUR"],
])("an Azure export with the columns %s is read", async (header, row) => {
  expect(costLines(await readCostText([header, row]))).toEqual(["azure 2026-10-03 sub: 2.5 EUR, OpenAI"]);
});

const header = "SubscriptionId,Date,MeterCategory,ChargeType,CostInBillingCurrency,BillingCurrency";

test("an amortized Azure export is read with a note that it doesn't add up to the invoice", async () => {
  const file = await readCostText([header, "sub,10/03/2026,Virtual Machines,UnusedReservation,1,USD"]);
  expect(file.notes).toEqual([
    "This is an amortized export, which doesn’t add up to the invoice. Export actual costs instead.",
  ]);
});

test.each([
  ["sub,31/10/2026,OpenAI,Usage,1,USD", 'Row 2: column Date is "31/10/2026", which isn’t a date as MM/DD/YYYY'],
  ['sub,10/03/2026,OpenAI,Usage,"1,5",USD', 'Row 2: column CostInBillingCurrency is "1,5", which isn’t an amount.'],
  ["sub,10/03/2026,OpenAI,Usage,1,", "Row 2: column BillingCurrency is empty."],
])("the Azure row %s is rejected", async (row, message) => {
  await expect(readCostText([header, row])).rejects.toThrow(message);
});

test("an Azure file that a spreadsheet saved with semicolons and decimal commas is read", async () => {
  const file = await readCostText([header.replaceAll(",", ";"), "sub;10/03/2026;OpenAI;Usage;1.234,5;EUR"]);
  expect(costLines(file)).toEqual(["azure 2026-10-03 sub: 1234.5 EUR, OpenAI"]);
});
