import { describe, expect, test } from "vitest";
import { type OverspendRound, overspendTable } from "../overspend/measure-overspend.ts";
import { busyWarning } from "./machine.ts";
import { figureText, goalText, type Row, verdictOf } from "./rows.ts";
import { goalTable, replaceMarked } from "./tables.ts";

const row = (fields: Partial<Row>): Row => ({
  id: "x",
  what: "x",
  unit: "ms",
  digits: 1,
  samples: [2, 1, 3],
  ...fields,
});

describe("a benchmark verdict", () => {
  test("a benchmark goal is met if the median equals it or is better", () => {
    expect(verdictOf(row({ goal: { atMost: 2 } }))).toBe("met");
    expect(verdictOf(row({ goal: { atMost: 1.99 } }))).toBe("missed");
    expect(verdictOf(row({ goal: { atLeast: 2 } }))).toBe("met");
    expect(verdictOf(row({ goal: { atLeast: 2.01 } }))).toBe("missed");
  });

  test("does not count an unmeasured goal as met", () => {
    expect(verdictOf(row({ goal: { atMost: 1 }, samples: [] }))).toBe("not measured");
    expect(verdictOf(row({ goal: { atLeast: 1 }, samples: [Number.NaN] }))).toBe("not measured");
    expect(verdictOf(row({}))).toBe("");
  });

  test("counts failed requests as infinitely slow", () => {
    const failed = row({ goal: { atMost: 8 }, samples: [Number.POSITIVE_INFINITY] });
    expect(verdictOf(failed)).toBe("missed");
    expect(figureText(failed)).toBe("∞ ms");
  });
});

test("the benchmark report shows the spread of figures and the comparison signs of goals, with units", () => {
  expect(figureText(row({}))).toBe("2.0 (1.0–3.0) ms");
  expect(figureText(row({ samples: [4] }))).toBe("4.0 ms");
  expect(figureText(row({ samples: [] }))).toBe("—");
  expect(figureText(row({ samples: [4321.4], digits: 0, unit: "a second" }))).toBe("4,321 a second");
  expect(goalText(row({ goal: { atMost: 8 } }))).toBe("≤ 8 ms");
  expect(goalText(row({ goal: { atLeast: 1.2 }, unit: "×" }))).toBe("≥ 1.2 ×");
});

test("prints the goals as a Markdown table, without verdicts for a quick run", () => {
  const rows = [row({ what: "added, median", goal: { atMost: 8 } }), row({ what: "memory", goal: { atMost: 1 } })];
  expect(goalTable(rows, { judged: true }).split("\n")).toEqual([
    "| what          | goal   | measured         |        |",
    "| ------------- | ------ | ---------------- | ------ |",
    "| added, median | ≤ 8 ms | 2.0 (1.0–3.0) ms | met    |",
    "| memory        | ≤ 1 ms | 2.0 (1.0–3.0) ms | missed |",
  ]);
  expect(goalTable(rows, { judged: false })).not.toMatch(/met|missed/);
});

test("replaces only the text between a document's markers", () => {
  const document = "a\n<!-- bench -->\n\nold\n\n<!-- /bench -->\nb\n";
  expect(replaceMarked(document, "new")).toBe("a\n<!-- bench -->\n\nnew\n\n<!-- /bench -->\nb\n");
  expect(() => replaceMarked("a\n", "new")).toThrow("<!-- bench -->");
});

test("counts a machine as busy when more than half of its cores are in use", () => {
  expect(busyWarning({ loadBefore: 1 }, 2)).toEqual([]);
  expect(busyWarning({ loadBefore: 1.1 }, 2)).toEqual([expect.stringContaining("load 1.1 on 2 cores")]);
});

test("the overspend table counts the provider's calls, the answers by status, and names gateways that did not run", () => {
  const round = { label: "A", streamed: false, answers: { 200: 100, 402: 900 }, providerCalls: 100 };
  const rounds: OverspendRound[] = [
    { ...round, recordedUsd: 1, ms: 1_540 },
    { ...round, streamed: true, answers: { 0: 2, 200: 998 }, providerCalls: 1_001, recordedUsd: undefined, ms: 900 },
    { ...round, answers: { 429: 901, 200: 99 }, providerCalls: 99, recordedUsd: 0.5, ms: 60_000 },
  ];
  expect(overspendTable(rounds, [{ label: "B", reason: "It needs Python 3." }]).split("\n")).toEqual([
    "| gateway | calls           | admitted | refused   | provider cost | overspend | recorded | time   |",
    "| ------- | --------------- | -------- | --------- | ------------- | --------- | -------- | ------ |",
    "| A       | 1,000           | 100      | 900 × 402 | $1.00         | $0.00     | $1.00    | 1.5 s  |",
    "| A       | 1,000, streamed | 998      | 2 × lost  | $10.01        | $9.01     | —        | 0.9 s  |",
    "| A       | 1,000           | 99       | 901 × 429 | $0.99         | −$0.01    | $0.50    | 60.0 s |",
    "| B       | —               | —        | —         | —             | —         | —        | —      |",
    "",
    "B is left out: It needs Python 3.",
  ]);
});
