import { describe, expect, test } from "vitest";
import { busyWarning } from "./machine.ts";
import { figureText, goalText, type Row, verdictOf } from "./rows.ts";
import { renderTable } from "./table.ts";

const row = (fields: Partial<Row>): Row => ({
  id: "x",
  what: "x",
  unit: "ms",
  digits: 1,
  samples: [2, 1, 3],
  ...fields,
});

describe("the verdict", () => {
  test("is the median's, at the goal itself and just past it", () => {
    expect(verdictOf(row({ goal: { atMost: 2 } }))).toBe("met");
    expect(verdictOf(row({ goal: { atMost: 1.99 } }))).toBe("missed");
    expect(verdictOf(row({ goal: { atLeast: 2 } }))).toBe("met");
    expect(verdictOf(row({ goal: { atLeast: 2.01 } }))).toBe("missed");
  });

  test("of what was not measured is never met, and there is none without a goal", () => {
    expect(verdictOf(row({ goal: { atMost: 1 }, samples: [] }))).toBe("not measured");
    expect(verdictOf(row({ goal: { atLeast: 1 }, samples: [Number.NaN] }))).toBe("not measured");
    expect(verdictOf(row({}))).toBe("");
  });

  test("on other conditions than the goal's is never that it is met, and that it is missed where those were easier", () => {
    const judged = (atMost: number, easier: boolean) =>
      verdictOf(row({ goal: { atMost }, unlike: { how: "fewer runs", easier } }));
    expect(judged(2, true)).toBe("not measured");
    expect(judged(1.99, true)).toBe("missed");
    expect(judged(2, false)).toBe("not measured");
    expect(judged(1.99, false)).toBe("not measured");
  });

  test("of requests that failed is that the goal is missed", () => {
    const failed = row({ goal: { atMost: 8 }, samples: [Number.POSITIVE_INFINITY] });
    expect(verdictOf(failed)).toBe("missed");
    expect(figureText(failed)).toBe("∞ ms");
  });
});

test("figures have their spread, goals their sign, both their unit", () => {
  expect(figureText(row({}))).toBe("2.0 (1.0–3.0) ms");
  expect(figureText(row({ samples: [4] }))).toBe("4.0 ms");
  expect(figureText(row({ samples: [] }))).toBe("—");
  expect(figureText(row({ samples: [4321.4], digits: 0, unit: "a second" }))).toBe("4,321 a second");
  expect(goalText(row({ goal: { atMost: 8 } }))).toBe("≤ 8 ms");
  expect(goalText(row({ goal: { atLeast: 2.5 }, unit: "×" }))).toBe("≥ 2.5 ×");
  expect(goalText(row({}))).toBe("");
  expect(goalText(row({ goal: { atMost: Number.NaN } }))).toBe("");
});

test("the table stands in columns, one line a row, its notes below what they belong to", () => {
  const text = renderTable([
    row({ what: "added, median", goal: { atMost: 8 } }),
    row({ what: "a hot workspace", goal: { atLeast: 2_000 }, unit: "a second", digits: 0, note: "of 64 connections" }),
    row({ what: "memory", goal: { atMost: 3 }, unlike: { how: "briefly", easier: true }, note: "1 before" }),
  ]);
  expect(text.split("\n")).toEqual([
    "what             goal              measured          ",
    "─────────────────────────────────────────────────────────────────",
    "added, median    ≤ 8 ms            2.0 (1.0–3.0) ms  met",
    "a hot workspace  ≥ 2,000 a second  2 (1–3) a second  missed",
    "  of 64 connections",
    "memory           ≤ 3 ms            2.0 (1.0–3.0) ms  not measured",
    "  not as the goal has it: briefly; 1 before",
  ]);
});

test("a machine is called busy from more than half of its cores on", () => {
  expect(busyWarning({ loadBefore: 1 }, 2)).toEqual([]);
  expect(busyWarning({ loadBefore: 1.1 }, 2)).toEqual([expect.stringContaining("load 1.1 on 2 cores")]);
});
