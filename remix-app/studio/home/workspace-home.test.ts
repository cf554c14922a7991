import { expect, test } from "vitest";
import type { Budget } from "../budgets/budget-schema.ts";
import { nearestToLimit } from "./workspace-home.ts";

const budget = (name: string, fields: Partial<Budget>): Budget => ({
  scope: "key",
  subjectId: crypto.randomUUID(),
  name,
  live: true,
  enforced: true,
  period: "month",
  timeZone: "UTC",
  startsAt: "2026-11-01T00:00:00Z",
  endsAt: "2026-12-01T00:00:00Z",
  thresholds: [50, 80, 100],
  reservesExpected: false,
  limitUsd: "10",
  spentUsd: "1",
  reservedUsd: "0",
  remainingUsd: "9",
  spentPercent: "10",
  usedUp: false,
  warned: null,
  maxCalls: null,
  calls: null,
  ...fields,
});

const namesOf = (budgets: Budget[]) => nearestToLimit(budgets).map(({ name }) => name);

test("budgets are ordered by the share spent, used-up ones first", () => {
  const budgets = [
    budget("a tenth", {}),
    budget("most", { spentPercent: "99" }),
    budget("used up", { spentPercent: "90", usedUp: true }),
    budget("a long number", { spentPercent: "100" }),
    budget("a day", { period: "day", spentPercent: "50" }),
    budget("concurrent calls", { period: "concurrent", limitUsd: null, spentPercent: null, maxCalls: 10, calls: 6 }),
  ];
  expect(namesOf(budgets)).toEqual(["used up", "a long number", "most", "concurrent calls"]);
});

test("the workspace's home page omits budgets without a limit, and budgets of subjects that can no longer make requests", () => {
  expect(namesOf([budget("no budget", { limitUsd: null }), budget("revoked", { live: false })])).toEqual([]);
});

test.each([
  [4, 4],
  [5, 4],
])("of %i budgets, the workspace's home page shows %i", (count, shown) => {
  const budgets = Array.from({ length: count }, (_, index) => budget(`key ${index}`, {}));
  expect(nearestToLimit(budgets)).toHaveLength(shown);
});

test("budgets whose spending is hidden keep their order", () => {
  const hidden = { spentUsd: null, reservedUsd: null, remainingUsd: null, spentPercent: null };
  expect(namesOf([budget("first", hidden), budget("second", hidden)])).toEqual(["first", "second"]);
});
