import { expect, test } from "vitest";
import { hideKeyBudgets, runBudgetLimit, runBudgetName } from "./run-budgets-card.tsx";
import type { RunBudget } from "./run-schema.ts";

const budget: RunBudget = {
  scope: "key",
  period: "month",
  subjectId: "0199c5b8-0000-7000-8000-000000000000",
  name: "CI",
  isSet: true,
  limitUsd: "10",
  maxCalls: null,
};
const envelope = { scope: "envelope", period: "total", name: "ticket-7", maxCalls: 200 } as const;
const concurrent = { scope: "workspace", period: "concurrent", name: "Orbit", limitUsd: null, maxCalls: 1 } as const;

test.each([
  [{}, "Monthly budget of API key CI", "$10.00 a month"],
  [{ period: "day" }, "Daily budget of API key CI", "$10.00 a day"],
  [
    { scope: "label", period: "total", name: "customer:7" },
    "Total budget of entity label customer:7",
    "$10.00 in total",
  ],
  [concurrent, "Limit of concurrent calls of workspace Orbit", "at most 1 call"],
  [envelope, "Task limit ticket-7", "$10.00 in total, at most 200 calls"],
  [{ ...envelope, limitUsd: null, maxCalls: null, name: null }, "Task limit", null],
  [{ limitUsd: null }, "Monthly budget of API key CI", null],
  [{ isSet: false, limitUsd: null }, "Monthly budget of API key CI", "removed since"],
  [{ scope: "member", name: null }, "Monthly budget of a deleted member", "$10.00 a month"],
] as const)("the run's budget %j is named and shows its limit", (changes, name, limit) => {
  const shown = { ...budget, ...changes };
  expect([runBudgetName(shown), runBudgetLimit(shown)]).toEqual([name, limit]);
});

test("members who may not see budgets of keys see neither their limits nor links", () => {
  const [key, member] = hideKeyBudgets([budget, { ...budget, scope: "member" }]);
  expect(key && [key.subjectId, runBudgetLimit(key)]).toEqual([null, null]);
  expect(member).toEqual({ ...budget, scope: "member" });
});
