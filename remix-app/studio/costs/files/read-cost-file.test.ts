import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { CostFile } from "./cost-file.ts";
import { readCostFile, readCostFiles } from "./read-cost-file.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const read = (text: string, fileName = "costs.csv") => readCostFile(bytes(text), { fileName });
/** Days as "day account service amount currency". */
const lines = ({ providers }: CostFile) =>
  providers.flatMap(({ provider, days }) =>
    days.flatMap(({ day, accountId, amounts }) =>
      amounts.map(({ service, amount, currency }) => [provider, day, accountId, service, amount, currency].join(" | ")),
    ),
  );

describe("a FOCUS export", () => {
  // FinOps-Open-Cost-and-Usage-Spec/FOCUS-Sample-Data, FOCUS-1.0/focus_sample.csv: NULL, quoted texts, times with a space.
  test("is read as its sample data has it", async () => {
    const file = await read(
      [
        '"AvailabilityZone","BilledCost","BillingAccountId","BillingCurrency","BillingPeriodEnd","BillingPeriodStart","ChargeCategory","ChargePeriodEnd","ChargePeriodStart","ProviderName","ServiceName","SubAccountId","Tags"',
        'NULL,0.00000080000,"1234567890123","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Usage","2024-09-18 23:00:00","2024-09-18 22:00:00","AWS","Amazon Simple Queue Service","51738928782",NULL',
        'NULL,0.00001605990,"1234567890123","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Usage","2024-09-18 24:00:00","2024-09-18 23:00:00","AWS","Amazon Simple Queue Service","51738928782","{""application"": ""Bright,\nLens""}"',
        'NULL,0.00001500000,"/providers/Microsoft.Billing/billingAccounts/8611537","USD","2024-10-01 00:00:00","2024-09-01 00:00:00","Usage","2024-09-05 00:00:00","2024-09-04 00:00:00","Microsoft","Storage Accounts","/subscriptions/64e355d7-997c-491d-b0c1-8414dccfcf42",NULL',
        "",
      ].join("\n"),
    );
    expect(file.formatName).toBe("a FOCUS export");
    expect(lines(file)).toEqual([
      "aws | 2024-09-18 | 51738928782 | Amazon Simple Queue Service | 0.0000168599 | USD",
      "azure | 2024-09-04 | /subscriptions/64e355d7-997c-491d-b0c1-8414dccfcf42 | Storage Accounts | 0.000015 | USD",
    ]);
  });
});

test("parts of a report are read as one file", async () => {
  const part = (amount: string) =>
    bytes(`usage_date_utc,model,workspace,cost_usd\n2026-10-03,Claude Haiku 4.5,Default,${amount}\n`);
  const file = await readCostFiles([
    { bytes: part("0.05"), fileName: "a.csv" },
    { bytes: gzipSync(part("1.2E-7")), fileName: "b.csv.gz" },
  ]);
  expect(lines(file)).toEqual(["anthropic | 2026-10-03 | default | Claude Haiku 4.5 | 0.05000012 | USD"]);
});
