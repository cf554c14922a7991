import { expect, test } from "vitest";
import { parseExactJson } from "./exact-json.ts";
import { providerInvoice } from "./provider-records.ts";

const base = `"provider": "mistral", "reference": "INV-1", "issuedOn": "2026-02-03", "reviewedAt": "2026-02-04T00:00:00Z"`;
const euros = `"currency": "EUR", "exchangeRate": 1.08, "netAmount": 1000, "taxAmount": 190.0, "totalAmount": 1190`;
const read = (fields: string) => {
  const parsed = providerInvoice.safeParse(parseExactJson(`{${base}, ${fields}}`));
  return parsed.success ? parsed.data.record : parsed.error.issues.map(({ path }) => path.join("."));
};

test.for([
  [`"amountUsd": 1080`, { amountUsd: "1080" }],
  [`"amountUsd": 1080, "currency": "USD"`, { amountUsd: "1080", currency: "USD" }],
  [`"amountUsd": 1080, ${euros}`, { amountUsd: "1080", exchangeRate: "1.08", netAmount: "1000", taxAmount: "190" }],
  [`"amountUsd": 5, "netAmount": 5, "taxAmount": 1, "totalAmount": 6`, { amountUsd: "5", totalAmount: "6" }],
  [`"amountUsd": 5, "netAmount": 5, "taxAmount": 0, "totalAmount": 5, "exchangeRate": 1.0`, { exchangeRate: "1" }],
  // 0.000000000001 × 0.5 is a tie, which is rounded to the even 0.
  [
    `"amountUsd": 0, "currency": "JPY", "exchangeRate": 0.5, "netAmount": 1e-12, "taxAmount": 0, "totalAmount": 1e-12`,
    { amountUsd: "0", netAmount: "0.000000000001" },
  ],
] as const)("an invoice with %s is accepted", ([fields, record]) => {
  expect(read(fields)).toMatchObject(record);
});

test.for([
  [`"amountUsd": 1080.000000000001, ${euros}`, "amountUsd"],
  [`"amountUsd": 1080, ${euros.replace("1190", "1190.01")}`, "totalAmount"],
  [`"amountUsd": 1080, ${euros.replace('"EUR"', '"eur"')}`, "currency"],
  [`"amountUsd": 1080, ${euros.replace('"EUR"', '"XAU"')}`, "currency"],
  [`"amountUsd": 1080, ${euros.replace('"EUR"', '"USD"')}`, "exchangeRate"],
  [`"amountUsd": 1080, ${euros.replace("1.08", "0")}`, "exchangeRate"],
  [`"amountUsd": 1080, ${euros.replace(" 190.0", " -190")}`, "taxAmount"],
  [`"amountUsd": 1080, ${euros.replace(" 190.0", ' "190"')}`, "taxAmount"],
  [`"amountUsd": 1080, ${euros.replace(" 190.0", " 190.0000000000001")}`, "taxAmount"],
  [`"amountUsd": 1080, "currency": "EUR"`, "exchangeRate"],
  [`"amountUsd": 1080, "currency": "EUR", "exchangeRate": 1.08`, "netAmount"],
  [`"amountUsd": 1080, "netAmount": 1080`, "taxAmount"],
  [`"amountUsd": 1080, "netAmount": 1080, "taxAmount": 0`, "totalAmount"],
  [`"amountUsd": 1080, "tax": 0`, ""],
])("an invoice with %s is rejected at %j", ([fields = "", path]) => {
  expect(read(fields)).toContain(path);
});
