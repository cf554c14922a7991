import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { CostList } from "./cost-list.tsx";
import { costColumns } from "./import-files.ts";
import type { CostRecord } from "./provider-import-schema.ts";

const at = "2026-01-20T00:00:00Z";
const record: CostRecord = {
  id: "00000000-0000-4000-8000-000000000000",
  appId: "00000000-0000-4000-8000-000000000001",
  appName: "ספר חשבונות",
  provider: "openai",
  accountId: "proj_1",
  externalRunId: "proj_1:2026-01-20",
  granularity: "account_day",
  service: null,
  amountUsd: "0.3",
  occurredAt: at,
  observedAt: at,
  recordedAt: at,
  revision: 1,
  counted: true,
  replacedBy: null,
  replaces: null,
  original: null,
  import: null,
};

const render = (changes: Partial<CostRecord> = {}) =>
  renderToStaticMarkup(
    createElement(CostList, {
      records: [{ ...record, ...changes }],
      imports: "/imports",
      empty: null,
    }),
  );

test("an app name in a right-to-left script does not reverse the date next to it", () => {
  expect(render()).toContain("<bdi>openai</bdi> · <bdi>ספר חשבונות</bdi> · <time");
});

test("a converted cost shows what the provider billed, the rate and who entered it", () => {
  const file = {
    id: "00000000-0000-4000-8000-000000000002",
    file: "october.csv",
    format: "focus",
    timeZone: "UTC",
    rates: { EUR: "1.08" },
    importedAt: at,
  };
  const original = [
    { currency: "EUR", amount: "10.5" },
    { currency: "USD", amount: "-1" },
  ];
  const page = render({ original, import: { ...file, by: "person", name: "Ada" } });
  for (const text of ["10.50 EUR + −$1.00", "october.csv", "<bdi>Ada</bdi>", "1 EUR = $1.08"])
    expect(page).toContain(text);
  expect(render({ import: { ...file, by: "person", name: null } })).toContain("<bdi>a deleted account</bdi>");
  expect(render({ import: { ...file, by: "operator", name: null } })).toContain("<bdi>the operator</bdi>");
  const automatic = { ...file, format: "openai-api", by: "operator" as const, name: null };
  expect(render({ import: automatic })).toContain("<bdi>the system</bdi>");
});

test("the CSV file of costs has each record's original amounts, and the exchange rates of only the record's currencies", () => {
  const original = [
    { currency: "EUR", amount: "10.5" },
    { currency: "USD", amount: "-1" },
  ];
  const file = {
    id: "00000000-0000-4000-8000-000000000002",
    file: "october.csv",
    format: "focus",
    timeZone: "America/Los_Angeles",
    rates: { EUR: "1.08", JPY: "0.0067" },
    by: "person" as const,
    name: "Ada",
    importedAt: at,
  };
  const fields = (changes: Partial<CostRecord>) =>
    Object.fromEntries(costColumns.map(({ name, value }) => [name, value({ ...record, ...changes })]));
  expect(fields({ original, import: file })).toMatchObject({
    original_amounts: "10.5 EUR; -1 USD",
    usd_rates: "1.08 USD/EUR",
    file: "october.csv",
    time_zone: "America/Los_Angeles",
  });
  expect(fields({})).toMatchObject({ original_amounts: undefined, usd_rates: undefined, file: undefined });
});
