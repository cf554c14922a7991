import { expect, test } from "vitest";
import { chargesOfCost } from "./focus-export.ts";

const cost = {
  appId: "7c9f0f4e-3d0f-4f0a-9b0e-2f9a3b1c4d5e",
  appName: null,
  provider: "aws",
  accountId: "111",
  externalRunId: "aws-costs:111:2026-10-03",
  service: null,
  amountUsd: "3.75",
  occurredAt: "2026-10-03T00:00:00.000Z",
  import: {
    id: "7c9f0f4e-3d0f-4f0a-9b0e-2f9a3b1c4d5e",
    file: "october.csv",
    format: "aws-cur",
    timeZone: "UTC",
    rates: {},
    by: "operator" as const,
    name: null,
    importedAt: "2026-11-01T00:00:00Z",
  },
};

// FOCUS 1.2: "This column MUST be of type String and MUST NOT contain null values."
// https://focus.finops.org/focus-specification/v1-2/#servicename
test("an imported total with services is one charge for each service, with the total's record id", () => {
  const charges = chargesOfCost(cost, [
    { service: null, category: null, amountUsd: "-0.5" },
    { service: "Amazon Bedrock", category: null, amountUsd: "3" },
    { service: "Amazon S3", category: "Storage", amountUsd: "1.25" },
  ]);
  expect(charges.map(({ service, serviceCategory, effectiveUsd }) => [service, serviceCategory, effectiveUsd])).toEqual(
    [
      [null, "Other", "-0.5"],
      ["Amazon Bedrock", "AI and Machine Learning", "3"],
      ["Amazon S3", "Storage", "1.25"],
    ],
  );
  expect(new Set(charges.map(({ recordId }) => recordId))).toEqual(new Set([cost.externalRunId]));
});

test("an imported total without services is one charge, as before services were stored", () => {
  expect(chargesOfCost(cost, undefined)).toMatchObject([
    { service: null, serviceCategory: "AI and Machine Learning", effectiveUsd: "3.75", billedCost: "0" },
  ]);
});
