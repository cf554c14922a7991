import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { InvoiceComparison, OtherInvoicesNotice } from "./invoice-comparison.tsx";

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

const invoiceOf = (kind: "invoice" | "credit_note") => ({ kind, provider: "openai", accountId: "proj_1" });

test("the review of an invoice warns about other invoices for the same period, but the review of a credit note does not", () => {
  expect(OtherInvoicesNotice({ invoice: invoiceOf("invoice"), comparison })).not.toBeNull();
  expect(OtherInvoicesNotice({ invoice: invoiceOf("credit_note"), comparison })).toBeNull();
  expect(
    OtherInvoicesNotice({ invoice: invoiceOf("invoice"), comparison: { ...comparison, otherInvoices: 0 } }),
  ).toBeNull();
});

const amounts = (invoice: Parameters<typeof InvoiceComparison>[0]["invoice"], changes: Partial<typeof comparison>) => {
  const page = renderToStaticMarkup(
    createElement(InvoiceComparison, { invoice, comparison: { ...comparison, otherInvoices: 0, ...changes } }),
  );
  // The first amount of a row is the displayed one, before the exact one for screen readers.
  const rows = page.matchAll(/<dt>(.*?)<\/dt><dd.*?>(−?\$[\d,.]+)</g);
  return Object.fromEntries([...rows].map(([, term, amount]) => [term, amount]));
};

test("the amounts in an invoice's comparison add up as displayed", () => {
  const invoice = { ...invoiceOf("invoice"), amountUsd: "0.300000000002" };
  expect(amounts(invoice, { importedUsd: "0.300000000001", importedDifferenceUsd: "0.000000000001" })).toMatchObject({
    "Imported (this account, 1 record)": "$0.30",
    "This invoice": "$0.30",
    "Invoice − imported": "$0.00",
  });
  const others = { otherInvoices: 1, otherInvoicesUsd: "0.4", importedUsd: "0.3", importedDifferenceUsd: "0.2" };
  expect(
    amounts({ ...invoiceOf("credit_note"), amountUsd: "0.1" }, { ...others, importedDifferenceUsd: "0" }),
  ).toMatchObject({
    "This credit note": "−$0.10",
    "1 other invoice or credit note in this period": "$0.40",
    "All invoices − imported": "$0.00",
  });
  const replaced = { ...invoiceOf("invoice"), amountUsd: "0.1", replacedBy: "INV-2" };
  expect(amounts(replaced, { importedUsd: "0.3", importedDifferenceUsd: "-0.3" })).toMatchObject({
    "This invoice (replaced, not counted)": "$0.00",
    "Invoice − imported": "−$0.30",
  });
});

test("an invoice's comparison says which accounts it compares, and has no difference from costs that were not imported", () => {
  const render = (accountId: string | null, importedRecords: number) =>
    renderToStaticMarkup(
      createElement(InvoiceComparison, {
        invoice: { ...invoiceOf("invoice"), accountId, amountUsd: "35" },
        comparison: { ...comparison, importedRecords },
      }),
    );
  expect(render("proj_1", 1)).toContain("compared with account proj_1 of openai only");
  expect(render(null, 1)).toContain("compared with all accounts of openai");
  expect(render(null, 1)).toContain("Imported (all accounts, 1 record)");
  expect(render(null, 0)).toMatch(/All invoices − imported<\/dt><dd.*?not compared/);
});
