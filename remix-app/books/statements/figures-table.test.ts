import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { FiguresTable } from "./figures-table.tsx";

const rowsOf = (accounts: number) =>
  Array.from({ length: accounts }, (_, n) => ({
    provider: n < 2 ? "anthropic" : "openai",
    accountId: `proj_${n}`,
    meteredUsd: "0.1",
    importedUsd: "0.2",
    invoicedUsd: "-1",
    runs: 1,
    importedRecords: 31,
    invoices: 1,
  }));
const render = (accounts: number) =>
  renderToStaticMarkup(createElement(FiguresTable, { caption: "Figures", rows: rowsOf(accounts), empty: "" }));

test("20 accounts are listed in less than 30 kB, and more are summed by provider", () => {
  const listed = render(20);
  expect(listed.match(/<tr>/g)).toHaveLength(21);
  expect(listed).toContain("Total");
  expect(listed).toContain("−$20.00");
  expect(listed.length).toBeLessThan(30_000);
  const summed = render(2_000);
  expect(summed.match(/<tr>/g)).toHaveLength(3);
  expect(summed).toContain("$199.80");
  expect(summed).toContain("$399.60");
  expect(summed).toContain("−$1,998.00");
  expect(summed).toContain("61,938");
  expect(summed).toContain("2,000 lines by account are in the CSV.");
});

test("21 providers are one line", () => {
  const rows = rowsOf(21).map((row, n) => ({ ...row, provider: `provider-${n}` }));
  const html = renderToStaticMarkup(createElement(FiguresTable, { caption: "Figures", rows, empty: "" }));
  expect(html.match(/<tr>/g)).toHaveLength(1);
  expect(html).toContain("21 providers");
  expect(html).toContain("−$21.00");
});

test.for([
  [{ importedUsd: "0", importedRecords: 0 }, true],
  [{ importedUsd: "0", importedRecords: 2 }, false],
  [{ importedUsd: "1", importedRecords: 0 }, false],
  [{ invoicedUsd: "0", invoices: 0 }, true],
  [{ meteredUsd: "0", runs: 0 }, false],
] as const)("%o shows a dash: %s", ([changes, hasDash]) => {
  const rows = rowsOf(1).map((row) => ({ ...row, ...changes }));
  const html = renderToStaticMarkup(createElement(FiguresTable, { caption: "Figures", rows, empty: "" }));
  expect(html.includes("–")).toBe(hasDash);
});
