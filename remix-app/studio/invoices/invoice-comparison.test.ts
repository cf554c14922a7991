import { expect, test } from "vitest";
import { OtherInvoicesNotice } from "./invoice-comparison.tsx";

const comparison = {
  firstDay: "2026-10-01",
  lastDay: "2026-10-31",
  meteredUsd: "33",
  importedUsd: "33",
  importedRecords: 1,
  importedDifferenceUsd: "0",
  otherInvoicesUsd: "35",
  otherInvoices: 1,
};

test("the review of an invoice warns that another one already counts, but not if the reviewed one is a credit note", () => {
  expect(OtherInvoicesNotice({ kind: "invoice", comparison })).not.toBeNull();
  expect(OtherInvoicesNotice({ kind: "credit_note", comparison })).toBeNull();
  expect(OtherInvoicesNotice({ kind: "invoice", comparison: { ...comparison, otherInvoices: 0 } })).toBeNull();
});
