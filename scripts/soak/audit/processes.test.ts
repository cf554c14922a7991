import { expect, test } from "vitest";
import { recoveryMs, type Span } from "../faults/spans.ts";
import { judgeProcesses } from "./processes.ts";

const pids = (service: string, ...seen: [at: number, pid: number][]) => seen.map(([at, pid]) => ({ service, at, pid }));
const span: Span = { kind: "web SIGTERM", part: "web", from: 10_000, until: 12_000, killed: false };

test("a process passes the audit if it keeps running, or is restarted around the time of a fault aimed at it", () => {
  expect(judgeProcesses(pids("web", [0, 1], [20_000, 1]), []).ok).toBe(true);
  expect(judgeProcesses(pids("web", [9_000, 1], [13_000, 2]), [span]).ok).toBe(true);
});

test("a replaced process counts as crashed if no fault was aimed at it", () => {
  expect(judgeProcesses(pids("web", [9_000, 1], [13_000, 2]), []).ok).toBe(false);
  expect(judgeProcesses(pids("web", [1_000, 1], [9_999, 2]), [span]).ok).toBe(false);
  const late = 12_000 + recoveryMs;
  expect(judgeProcesses(pids("web", [late, 1], [late + 2_000, 2]), [span]).ok).toBe(true);
  expect(judgeProcesses(pids("web", [late + 1, 1], [late + 2_000, 2]), [span]).ok).toBe(false);
  expect(judgeProcesses(pids("functions", [9_000, 1], [13_000, 2]), [span]).ok).toBe(false);
});

test("a fault that only slows a process does not excuse a crash", () => {
  const slow: Span = { ...span, kind: "slow disk", part: "postgres" };
  expect(judgeProcesses(pids("postgres", [9_000, 1], [13_000, 2]), [slow]).ok).toBe(false);
});
