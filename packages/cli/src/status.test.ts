import { expect, test } from "vitest";
import { describeEnvelope, type Envelope } from "./envelopes.ts";
import { describeSpending, durationText } from "./status.ts";

const budget = { scope: "key", window: "month", timeZone: "UTC", limitUsd: 20, remainingUsd: 18.75 };
const now = Date.parse("2026-11-30T18:00:00Z");

test.each([
  [{ spent: { costUsd: 1.25 }, budgets: [budget] }, ["$1.25 spent this month", "$18.75 of $20.00 left (key budget)"]],
  [{ spent: { costUsd: 0.0012 }, budgets: [] }, ["$0.0012 spent this month", "no budget"]],
  [
    { spent: { costUsd: 21 }, budgets: [{ ...budget, scope: "workspace", remainingUsd: -1 }] },
    ["$21.00 spent this month", "$0.00 of $20.00 left (workspace budget)"],
  ],
  [
    {
      spent: { costUsd: 1 },
      budgets: [
        { ...budget, window: "day", timeZone: "Europe/Berlin", resetsAt: "2026-11-30T23:00:00Z" },
        { ...budget, scope: "member", window: "week", resetsAt: "2026-12-07T00:00:00Z" },
        { ...budget, scope: "workspace", window: "month", timeZone: "Asia/Tokyo", resetsAt: "2026-11-30T18:20:00Z" },
        { ...budget, scope: "app", window: "total", resetsAt: null },
      ],
    },
    [
      "$1.00 spent this month",
      "$18.75 of $20.00 left today, resets in 5 h 0 min (key budget)",
      "$18.75 of $20.00 left this week, resets in 6 days (member budget)",
      "$18.75 of $20.00 left this month, resets in 20 min (workspace budget)",
      "$18.75 of $20.00 left in total (app budget)",
    ],
  ],
  [{ spent: { costUsd: null }, budgets: [{ ...budget, remainingUsd: null }] }, ["budget amounts are hidden"]],
])("shows the costs and budgets %j as %j", (answer, words) => {
  expect(describeSpending(answer, now)).toEqual(words);
});

test.each([
  [59_999, "0 min"],
  [60_000, "1 min"],
  [3_600_000, "1 h 0 min"],
  [28_799_999, "7 h 59 min"],
  [172_799_999, "47 h 59 min"],
  [172_800_000, "2 days"],
])("shows a duration of %d ms as %s", (ms, text) => {
  expect(durationText(ms)).toBe(text);
});

const envelope: Envelope = {
  id: "0b0e7a5e-3f5c-4c55-9b29-0a4c0e8d8b11",
  state: "open",
  limitUsd: 5,
  spentUsd: 1.25,
  reservedUsd: 0.5,
  maxCalls: 200,
  calls: 12,
  endsAt: "2026-12-30T08:00:00+00:00",
};
const page = `https://app.example.com/workspaces/w/ai/envelopes/${envelope.id}`;

test.each<[Partial<Envelope>, string]>([
  [{}, "$3.25 of $5.00 left, $1.25 spent, calls: 12 of 200, open until 2026-12-30"],
  [{ spentUsd: 6, maxCalls: null }, "$0.00 of $5.00 left, $6.00 spent, calls: 12, used up until 2026-12-30"],
  [{ calls: 200 }, "$3.25 of $5.00 left, $1.25 spent, calls: 200 of 200, used up until 2026-12-30"],
  [
    { limitUsd: 0.028, spentUsd: 0.02, reservedUsd: 0 },
    "$0.0080 of $0.0280 left, $0.02 spent, calls: 12 of 200, open until 2026-12-30",
  ],
  [{ state: "ended" }, "$3.25 of $5.00 left, $1.25 spent, calls: 12 of 200, stopped"],
  [
    { limitUsd: null, spentUsd: null, reservedUsd: null },
    "amounts are hidden, calls: 12 of 200, open until 2026-12-30",
  ],
])("shows an envelope with %j as %s", (change, words) => {
  const place = { url: "https://app.example.com", workspaceId: "w" };
  expect(describeEnvelope({ ...envelope, ...change }, place)).toBe(`${words} (${page})`);
});
