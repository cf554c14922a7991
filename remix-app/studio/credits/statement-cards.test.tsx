import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import type { CreditAccount } from "./statement.ts";
import { CreditStatementCards } from "./statement-cards.tsx";

const account: CreditAccount = {
  payer: "workspace",
  opening: "100",
  added: "500",
  deducted: "0",
  used: "0.06154321",
  corrected: "0",
  usedElsewhere: "0",
  unexplained: "0",
  closing: "599.93845679",
  changes: [],
  use: [],
};
const render = (changed: Partial<CreditAccount>) =>
  renderToStaticMarkup(<CreditStatementCards account={{ ...account, ...changed }} isOwn={false} />);

test("the lines show exact credits, so that they add up", () => {
  const lines = [...render({}).matchAll(/<dt[^>]*>([^<]*)<\/dt><dd[^>]*>([^<]*)<\/dd>/g)].map(([, ...line]) => line);
  expect(lines).toEqual([
    ["Opening balance", "100.00000000"],
    ["Added", "500.00000000"],
    ["Used in this workspace", "−0.06154321"],
    ["Closing balance", "599.93845679"],
  ]);
});

test("50 rows of a list are shown, and the sum of the others", () => {
  const use = Array.from({ length: 2_000 }, (_, n) => ({
    ...{ model: `model-${n}`, memberId: null, member: null, requests: 1, credits: "0.01" },
  }));
  const changes = Array.from({ length: 51 }, (_, n) => ({
    ...{ id: String(n), at: "2026-10-01T00:00:00Z", kind: "purchase" as const, description: null, reference: null },
    credits: "1234.5",
  }));
  const html = render({ use, changes });
  expect(html).toContain("1,950 more rows with 19.5 credits in total. The CSV has all rows.");
  expect(html).toContain("1 more row with 1,234.5 credits in total.");
  expect(html.match(/<tr>/g)).toHaveLength(100);
  expect(html.length).toBeLessThan(60_000);
  expect(render({ use: use.slice(0, 50), changes: changes.slice(0, 50) })).not.toContain("more row");
});
