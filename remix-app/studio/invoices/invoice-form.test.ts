import { expect, test } from "vitest";
import { invoiceFields } from "./invoice-facts.ts";
import { readInvoiceForm } from "./invoice-form.ts";

const filled = {
  appId: "6f1b9c1e-9a52-4c4e-8a53-1c7a5f2d9e10",
  provider: "openai",
  accountId: "",
  reference: "INV-1",
  netAmount: "12.50",
  issuedOn: "2026-01-31",
  periodStart: "",
  periodEnd: "",
};
const read = (changes: Record<string, string> = {}) => {
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...filled, ...changes })) form.set(name, value);
  return readInvoiceForm(form).read;
};
const draftOf = (changes: Record<string, string> = {}) => {
  const answer = read(changes);
  return "draft" in answer ? answer.draft : answer.errors;
};

test("an invoice form omits empty fields and keeps the exact amount", () => {
  const { accountId: _, periodStart: __, periodEnd: ___, netAmount: ____, ...kept } = filled;
  expect(draftOf()).toEqual({ ...kept, amountUsd: "12.5" });
  expect(draftOf({ accountId: " acct-1 ", periodStart: "2026-01-01", periodEnd: "2026-01-31" })).toEqual({
    ...kept,
    amountUsd: "12.5",
    accountId: "acct-1",
    periodStart: "2026-01-01",
    periodEnd: "2026-01-31",
  });
});

test.for([
  ["0", "0"],
  ["$1234.56", "1234.56"],
  ["0.000000000001", "0.000000000001"],
  ["999999999999", "999999999999"],
  ["0.1", "0.1"],
  ["123.456789012345", "123.456789012345"],
  ["00012.340", "12.34"],
  ["1234.456789012345", "1234.456789012345"],
  ["0.0000000000005", "0"],
  ["0.0000000000015", "0.000000000002"],
])("the invoice amount %s is read as %s", ([typed, kept]) => {
  expect(draftOf({ netAmount: typed ?? "" })).toMatchObject({ amountUsd: kept });
});

test.for(["1000000000000", "999999999999.9999999999995"])(
  "the invoice amount %s is rejected for its digits before the point",
  (netAmount) => {
    expect(draftOf({ netAmount })).toEqual({ netAmount: expect.stringContaining("12 digits before") });
  },
);

test.for([
  "-1",
  "-0.000000000001",
  "1,234.56",
  "1,234",
  "12,5",
  "1 234",
  "1e3",
  ".5",
  "12.",
  "٣",
  "NaN",
  "0x10",
  "€12",
])("the invoice amount %s is rejected at its field", (netAmount) => {
  expect(draftOf({ netAmount })).toEqual({ netAmount: expect.stringContaining("1234.56") });
});

test.for([
  ["provider", "x".repeat(128), "x".repeat(129)],
  ["provider", "A-z.0_9:", "open ai"],
  ["reference", "INV/2026 №1", "INV\n1"],
  ["reference", "x".repeat(256), "x".repeat(257)],
  ["replaces", "INV 1", "INV\t1"],
  ["accountId", "arn:aws:iam::123456789012:root", "a".repeat(257)],
  ["issuedOn", "2024-02-29", "2025-02-29"],
  ["issuedOn", "2026-01-31", "31.01.2026"],
  ["periodStart", "2026-01-01", "2026-01"],
  ["periodEnd", "2026-01-31", "0000-01-01"],
  ["appId", filled.appId, "none"],
] as const)("the invoice field %s accepts %s and refuses %s", ([field, inside, outside]) => {
  expect(draftOf({ [field]: inside })).toMatchObject({ [field]: inside });
  expect(Object.keys(draftOf({ [field]: outside }))).toEqual([field]);
});

test("an invoice's period may be one day, and cannot end before it starts", () => {
  expect(read({ periodStart: "2026-01-02", periodEnd: "2026-01-02" })).toHaveProperty("draft");
  expect(draftOf({ periodStart: "2026-01-02", periodEnd: "2026-01-01" })).toEqual({
    periodEnd: "The period ends before it starts.",
  });
});

test("missing invoice values are reported per field, and a forged field changes nothing", () => {
  const blank = Object.fromEntries(invoiceFields.map((name) => [name, " "]));
  expect(Object.keys(draftOf(blank))).toEqual(
    expect.arrayContaining(["appId", "provider", "reference", "netAmount", "issuedOn"]),
  );
  expect(Object.keys(draftOf(blank))).toHaveLength(5);
  expect(draftOf({ workspaceId: "x" })).not.toHaveProperty("workspaceId");
});

const eur = { currency: "EUR", exchangeRate: "1.08", netAmount: "", taxAmount: "", totalAmount: "" };
const complete = { currency: "EUR", exchangeRate: "1.08", netAmount: "1000", taxAmount: "190", totalAmount: "1190" };

test.for([
  [{ netAmount: "1000", taxAmount: "190" }, {}],
  [{ netAmount: "1000", totalAmount: "1190.00" }, {}],
  [{ taxAmount: "190", totalAmount: "1190" }, {}],
  [{ netAmount: "1000.0", taxAmount: "190", totalAmount: "1190" }, {}],
  [
    { currency: "USD", exchangeRate: "", netAmount: "$1000", taxAmount: "$190" },
    { currency: "USD", exchangeRate: "1", amountUsd: "1000" },
  ],
  [
    { netAmount: "1000", taxAmount: "0" },
    { taxAmount: "0", totalAmount: "1000" },
  ],
] as const)("the amounts %o of an invoice are completed", ([typed, expected]) => {
  expect(draftOf({ ...eur, ...typed })).toMatchObject({ ...complete, amountUsd: "1080", ...expected });
});

test.for([
  [{ netAmount: "1000" }, "taxAmount", "or 0 if there is none"],
  [{ totalAmount: "1190" }, "taxAmount", "or 0 if there is none"],
  [{ taxAmount: "190" }, "netAmount", "Enter the net amount"],
  [{}, "netAmount", "Enter the net amount"],
  [{ netAmount: "1000", taxAmount: "190", totalAmount: "1190.01" }, "totalAmount", "add up to 1190, not to 1190.01"],
  [{ taxAmount: "1191", totalAmount: "1190" }, "taxAmount", "more than the total"],
  [{ netAmount: "1191", totalAmount: "1190" }, "netAmount", "more than the total"],
  [{ netAmount: "1,000", taxAmount: "190" }, "netAmount", "without commas"],
  [{ netAmount: "$1000", taxAmount: "190" }, "netAmount", "without commas"],
  [{ netAmount: "0.0000000000001", taxAmount: "0" }, "netAmount", "12 digits after"],
  [{ netAmount: "1", taxAmount: "0", exchangeRate: "0" }, "exchangeRate", "US dollars for one EUR"],
  [{ netAmount: "1", taxAmount: "0", exchangeRate: "1,08" }, "exchangeRate", "US dollars for one EUR"],
  [{ netAmount: "1", taxAmount: "0", exchangeRate: "" }, "exchangeRate", "have no rate for this period"],
  [{ netAmount: "999999999999", taxAmount: "0", exchangeRate: "2" }, "exchangeRate", "12 digits before"],
  [{ netAmount: "1", taxAmount: "0", currency: "USD" }, "exchangeRate", "Leave the rate empty"],
  [{ netAmount: "1", taxAmount: "0", currency: "XXX" }, "currency", "Choose a currency"],
] as const)("the amounts %o of an invoice are rejected at %s", ([typed, field, message]) => {
  expect(draftOf({ ...eur, ...typed })).toEqual({ [field]: expect.stringContaining(message) });
});
