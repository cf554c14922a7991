import { describe, expect, test } from "vitest";
import type { PlannedFault } from "../faults/plan.ts";
import { recoveryMs, type Span } from "../faults/spans.ts";
import type { Answered } from "../journal.ts";
import { judgeAnswers, judgeFaults, judgeFindings, mostOfSlowness } from "./answers.ts";

const answer: Answered = {
  actor: "browser 1",
  what: "GET /",
  target: "web",
  startedAt: 10_000,
  endedAt: 10_100,
  status: 503,
  code: "AUTH_UNAVAILABLE",
  requestId: "request-1",
  left: false,
  asked: false,
};
const span: Span = { kind: "postgres SIGKILL", part: "postgres", from: 9_000, until: 12_000, killed: true };
const judged = (change: Partial<Answered>, spans: Span[] = []) => judgeAnswers([{ ...answer, ...change }], spans).ok;

describe("Failed calls", () => {
  test("reports a call answered with 500, even during a fault", () => {
    expect(judged({ status: 500 }, [span])).toBe(false);
  });

  test.each([502, 503, 504])("reports a call answered with %i unless a fault was active", (status) => {
    expect(judged({ status })).toBe(false);
    expect(judged({ status }, [span])).toBe(true);
  });

  test("reports a call without an answer unless the caller disconnected", () => {
    expect(judged({ status: null })).toBe(false);
    expect(judged({ status: null, left: true })).toBe(true);
  });

  test("excuses a failed call only until the recovery time after a fault has passed", () => {
    const at = (ms: number) => ({ startedAt: ms, endedAt: ms + 10 });
    expect(judged(at(12_000 + recoveryMs), [span])).toBe(true);
    expect(judged(at(12_000 + recoveryMs + 1), [span])).toBe(false);
    expect(judged(at(8_990), [span])).toBe(true);
    expect(judged(at(8_989), [span])).toBe(false);
  });

  test("a fault excuses a failed call only if the call depends on the faulty part", () => {
    const functions: Span = { ...span, part: "functions" };
    expect(judged({ target: "web" }, [functions])).toBe(false);
    expect(judged({ target: "ai" }, [functions])).toBe(true);
    expect(judged({ target: "ai" }, [{ ...span, part: "identity" }])).toBe(false);
  });

  test("a provider outage excuses a 502 or 504 from the gateway", () => {
    const provider: Span = { ...span, part: "provider" };
    expect(judged({ target: "ai", status: 502 }, [provider])).toBe(true);
    expect(judged({ target: "ai", status: 504 }, [provider])).toBe(true);
    expect(judged({ target: "ai", status: 500 }, [provider])).toBe(false);
    expect(judged({ target: "ai", status: 503 }, [provider])).toBe(false);
    expect(judged({ target: "web", status: 502 }, [provider])).toBe(false);
  });

  test("excuses a failure that the caller provoked on purpose, unless it was answered with 500", () => {
    expect(judged({ target: "ai", status: 502, asked: true })).toBe(true);
    expect(judged({ target: "ai", status: 500, asked: true })).toBe(false);
  });
});

test("does not count answers below 500 as failures", () => {
  for (const status of [200, 303, 401, 409, 429]) expect(judged({ status })).toBe(true);
});

test("the audit fails on a finding, and on a fault that is still active", () => {
  expect(judgeFindings([]).ok).toBe(true);
  expect(judgeFindings([{ at: 0, actor: "browser 1", text: "odd" }]).ok).toBe(false);
  expect(judgeFaults([span], []).ok).toBe(true);
  expect(judgeFaults([{ ...span, until: null }], []).ok).toBe(false);
});

test("the audit fails if a planned fault did not happen", () => {
  const planned: PlannedFault[] = [
    { kind: "postgres SIGKILL", atMs: 1_000, forMs: 0 },
    { kind: "slow disk", atMs: 2_000, forMs: 1_000 },
  ];
  const slow = { ...span, kind: "slow disk" };
  expect(judgeFaults([span, slow], planned).ok).toBe(true);
  expect(judgeFaults([span], planned).failures).toEqual([expect.stringContaining("slow disk")]);
  expect(judgeFaults([], planned).failures).toHaveLength(2);
});

describe("faults that only cause slowness", () => {
  const slow: Span = { ...span, kind: "slow disk" };
  const judgedAll = (answers: Answered[], spans: Span[]) => judgeAnswers(answers, spans).ok;
  const many = (count: number) => Array.from({ length: count }, () => answer);

  test("a fault that only causes slowness excuses a limited number of 503s with an error code", () => {
    expect(judgedAll(many(mostOfSlowness), [slow])).toBe(true);
    expect(judgedAll(many(mostOfSlowness + 1), [slow])).toBe(false);
    expect(judgedAll(many(mostOfSlowness + 1), [slow, span])).toBe(true);
  });

  test.each<[string, Partial<Answered>]>([
    ["a 503 without a reason", { code: null }],
    ["a 502", { status: 502 }],
    ["a 504", { status: 504 }],
    ["a missing answer", { status: null }],
  ])("a fault that only causes slowness does not excuse %s", (_, change) => {
    expect(judged(change, [slow])).toBe(false);
    expect(judged(change, [{ ...slow, kind: "network delay" }])).toBe(false);
    expect(judged(change, [slow, span])).toBe(true);
  });
});

test("reports how many calls were answered with idempotency_key_used", () => {
  expect(judgeAnswers([{ ...answer, status: 409, code: "idempotency_key_used" }], []).figures).toContain(
    "1 told idempotency_key_used",
  );
});
