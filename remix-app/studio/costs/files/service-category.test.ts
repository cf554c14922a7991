import { expect, test } from "vitest";
import { readCostText } from "../../../testing/cost-file-lines.ts";
import { findServiceCategory, serviceCategories, serviceCategoryOf } from "./service-category.ts";

// "This column is of type String and MUST be one of the allowed values." FOCUS 1.2, ServiceCategory:
// https://focus.finops.org/focus-specification/v1-2/#servicecategory
test.each([
  ["Amazon Bedrock", "Compute", "focus", "Compute"],
  ["Amazon Bedrock", null, "aws-cur", "AI and Machine Learning"],
  ["Amazon Simple Storage Service", null, "aws-cur", "Storage"],
  ["Amazon Elastic Compute Cloud", null, "aws-cur", "Compute"],
  ["Vertex AI", null, "gcp-bigquery", "AI and Machine Learning"],
  ["Azure Database for PostgreSQL", null, "azure", "Databases"],
  ["AWS Support (Business)", null, "aws-cur", "Other"],
  [null, null, "aws-cur", "Other"],
  ["gpt-5, input", null, "openai-costs", "AI and Machine Learning"],
  [null, null, null, "AI and Machine Learning"],
  ["Anything", "not a category", "gcp-cost-table", "Other"],
])("the category of %s (%s in %s) is %s", (service, stated, format, category) => {
  expect(serviceCategoryOf(service, { stated, format })).toBe(category);
  expect(serviceCategories).toContain(category);
});

test("a category is found regardless of case, and no other text is one", () => {
  expect(findServiceCategory("ai and machine learning")).toBe("AI and Machine Learning");
  expect(findServiceCategory("Artificial Intelligence")).toBeUndefined();
  expect(findServiceCategory(null)).toBeUndefined();
});

test("a FOCUS file states its services' categories, and no other values", async () => {
  const { providers } = await readCostText([
    "BilledCost,BillingCurrency,ChargePeriodStart,ProviderName,ServiceName,ServiceCategory,ChargeCategory",
    "1,USD,2026-10-01T00:00:00Z,AWS,Amazon S3,Storage,Usage",
    "2,USD,2026-10-01T00:00:00Z,AWS,Amazon Bedrock,Artificial Intelligence,Usage",
    "3,USD,2026-10-02T00:00:00Z,AWS,Amazon S3,Storage,Usage",
  ]);
  expect(providers[0]?.serviceCategories).toEqual({ "Amazon S3": "Storage" });
});
