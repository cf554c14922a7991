import { describe, expect, test } from "vitest";
import { recoveryMs, type Span } from "../faults/spans.ts";
import { judgeAccounts, judgeEnded } from "./accounts.ts";
import { judgeImports } from "./imports.ts";
import { judgeLogs, logLines } from "./logs.ts";
import { judgeSwitches } from "./switches.ts";
import { judgeProbes } from "./verdict.ts";

describe("the audit of accounts", () => {
  const fact = { actor: "browser 1", accountId: "a", opened: true, answered: "200", sessionLives: true };

  test("accounts that can't be opened count as lost, whether or not their session still exists", () => {
    expect(judgeAccounts([fact]).ok).toBe(true);
    expect(judgeAccounts([fact, { ...fact, opened: false, answered: "401" }]).ok).toBe(false);
    expect(judgeAccounts([{ ...fact, opened: false, answered: "401", sessionLives: false }]).failures[0]).toContain(
      "is gone",
    );
  });

  test("the audit fails if a session still works after its user signed out", () => {
    const ended = { actor: "browser 1", what: "session s", how: "its user signed out", alive: false };
    expect(judgeEnded([ended]).ok).toBe(true);
    expect(judgeEnded([ended, { ...ended, alive: true }]).ok).toBe(false);
  });
});

describe("the audit of imports", () => {
  const observations = [
    { observedAt: "2026-01-01T00:01:00Z", amountUsd: "1.5", accepted: true },
    { observedAt: "2026-01-01T00:02:00Z", amountUsd: "2.5", accepted: true },
  ];
  const reported = {
    costs: [{ externalRunId: "c", observations }],
    invoices: [{ reference: "i", amountUsd: "12.50", accepted: true }],
  };
  const kept = {
    keptCosts: [{ id: "c", amountUsd: "2.500000000000" }],
    keptInvoices: [{ id: "i", amountUsd: "12.5" }],
  };
  const judged = (change: object) => judgeImports({ ...reported, ...kept, ...change }).ok;

  test("the audit accepts imports only if each cost and invoice is stored once, with the amount expected from the reports", () => {
    expect(judged({})).toBe(true);
    expect(judged({ keptCosts: [{ id: "c", amountUsd: "1.5" }] })).toBe(false);
    expect(judged({ keptCosts: [] })).toBe(false);
    expect(judged({ keptCosts: [...kept.keptCosts, ...kept.keptCosts] })).toBe(false);
    expect(judged({ keptInvoices: [] })).toBe(false);
    expect(judged({ keptInvoices: [{ id: "i", amountUsd: "12.51" }] })).toBe(false);
    expect(judged({ keptInvoices: [...kept.keptInvoices, ...kept.keptInvoices] })).toBe(false);
  });
});

describe("the soak's log check", () => {
  const span: Span = { kind: "postgres SIGKILL", part: "postgres", from: 9_000, until: 12_000, killed: true };
  const judged = (text: string, at = 0, service = "web") => judgeLogs([{ service, at, text }], [span]).ok;

  test("logs may report an outage only while it lasts", () => {
    const line = '{"level":"error","error":"Error","code":"ECONNREFUSED"}';
    expect(judged(line, 10_000)).toBe(true);
    expect(judged(line, 12_000 + recoveryMs)).toBe(true);
    expect(judged(line, 12_000 + recoveryMs + 1)).toBe(false);
    expect(judged("    at file.ts:1:2", 10_000)).toBe(true);
    expect(judged("error request=1 TypeError: fetch failed", 10_000)).toBe(true);
    expect(judged("error request=1 TypeError: fetch failed")).toBe(false);
    expect(judged("    at file.ts:1:2")).toBe(false);
  });

  test("rejects a log line that shows a defect, even during an outage", () => {
    for (const line of [
      "TypeError: x is not a function",
      "Uncaught (in promise) Error",
      "unhandledRejection",
      "Uncaught error: terminating connection due to administrator command",
      "unhandled rejection: could not receive data from client",
      "ERROR:  deadlock detected",
    ]) {
      expect(judged(line, 10_000)).toBe(false);
    }
  });

  test("the soak's log check always accepts requests and warnings", () => {
    expect(judged('status=503 method=GET path="/" ms=1.0')).toBe(true);
    expect(judged("warning request=1 a switch was not finished: unavailable")).toBe(true);
    expect(judged("FATAL:  the database system is starting up", 0, "postgres")).toBe(true);
  });

  test("reads the time of each log line", () => {
    expect(logLines("web", "2026-01-01T00:00:00.000Z one\n  more\n")).toEqual([
      { service: "web", at: Date.UTC(2026, 0, 1), text: "one" },
      { service: "web", at: Date.UTC(2026, 0, 1), text: "  more" },
    ]);
  });
});

test("reports a probe that fails after everything has recovered", () => {
  const probe = { what: "a chat", expected: 200, status: 200, detail: "" };
  expect(judgeProbes([probe]).ok).toBe(true);
  expect(judgeProbes([probe, { ...probe, status: 503 }]).ok).toBe(false);
});

describe("the audit of lost primaries", () => {
  const span: Span = { kind: "postgres crash", part: "postgres", from: 10_000, until: 14_000, killed: true };
  const call = { actor: "payer 1", what: "POST", target: "ai", code: null, requestId: "r", left: false, asked: false };
  const answer = (startedAt: number, status: number | null, more: object = {}) =>
    ({ ...call, target: "ai", startedAt, endedAt: startedAt + 100, status, ...more }) as const;
  const web = { target: "web" } as const;
  const told = { runId: "run 1", billedCredits: "1", costUsd: "1", usageSource: "provider" };
  const stream = { requestId: "r", startedAt: 9_000, endedAt: 12_000, status: 200, told, left: false };
  const facts = {
    spans: [span],
    answers: [
      answer(9_800, 200),
      answer(10_500, 503),
      answer(11_000, 503),
      answer(12_900, 200),
      answer(12_000, 200, web),
    ],
    asks: [{ tenant: "payer", what: "stream", idempotencyKey: null, attempts: [stream] }],
    runIds: new Set(["run 1"]),
  };
  const judged = (change: object) => judgeSwitches({ ...facts, ...change });

  test("counts the time until calls succeed again from the loss of the primary to the first success after the last failure", () => {
    const { ok, figures } = judged({});
    expect(ok).toBe(true);
    expect(figures).toBe("crash: ai 3.0 s, web 0.0 s, 2 of 4 calls failed, 1 streams in progress, 0 runs lost");
  });

  test("fails if calls never succeed again, an answered run is not in the database, or a stream was cut off", () => {
    expect(judged({ answers: [answer(11_000, 503)] }).failures).toEqual(["crash: no call of ai succeeded again"]);
    expect(judged({ runIds: new Set() }).failures).toEqual(["crash: run run 1 was answered and is lost"]);
    const asks = [{ ...facts.asks[0], attempts: [{ ...stream, told: null }] }];
    expect(judged({ asks }).failures).toEqual(["crash: the stream of request r was cut off"]);
  });
});
