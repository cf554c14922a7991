import { expect, test } from "vitest";
import { describeSpending, durationText } from "./status.ts";

const budget = { scope: "key", limitUsd: 20, remainingUsd: 18.75 };

test.each([
  [{ spent: { costUsd: 1.25 }, budgets: [budget] }, ["$1.25 spent this month", "$18.75 of $20.00 left (key budget)"]],
  [{ spent: { costUsd: 0.0012 }, budgets: [] }, ["$0.0012 spent this month", "no budget"]],
  [
    { spent: { costUsd: 21 }, budgets: [{ ...budget, scope: "workspace", remainingUsd: -1 }] },
    ["$21.00 spent this month", "$0.00 of $20.00 left (workspace budget)"],
  ],
  [{ spent: { costUsd: null }, budgets: [{ ...budget, remainingUsd: null }] }, ["budget amounts are hidden"]],
])("shows the costs and budgets %j as %j", (answer, words) => {
  expect(describeSpending(answer)).toEqual(words);
});

test.each([
  [59_999, "0 min"],
  [60_000, "1 min"],
  [3_600_000, "1 h 0 min"],
  [28_799_999, "7 h 59 min"],
])("shows a duration of %d ms as %s", (ms, text) => {
  expect(durationText(ms)).toBe(text);
});
