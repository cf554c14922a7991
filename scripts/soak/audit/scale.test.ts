import { describe, expect, test } from "vitest";
import type { Span } from "../faults/spans.ts";
import { judgeKills, judgeLimits, judgeMoves, judgeRaces, judgeSweepers, killableOf } from "./scale.ts";

const race = { actor: "commuter 1", at: 0, renewedBy: 2, outcome: "kept", detail: "" } as const;
const move = { actor: "commuter 1", at: 0, outcome: "arrived", detail: "" } as const;

describe("the audit of several servers", () => {
  test("a refresh that loses the session fails the audit; an unanswered refresh does not", () => {
    expect(judgeRaces([race, { ...race, outcome: "doubtful" }]).ok).toBe(true);
    expect(judgeRaces([race, { ...race, outcome: "lost", detail: "no session" }]).failures).toEqual([
      expect.stringContaining("no session"),
    ]);
  });

  test("an account switch that leads to the wrong account fails the audit; an unanswered account switch does not", () => {
    expect(judgeMoves([move, { ...move, outcome: "doubtful" }]).ok).toBe(true);
    expect(judgeMoves([move, { ...move, outcome: "lost" }]).ok).toBe(false);
  });

  test.each([
    [{}, true],
    [{ admitted: 9, refused: 21 }, false],
    [{ admitted: 11, refused: 19 }, false],
    [{ refused: 19, failed: 1 }, false],
  ])(
    "auditing 10 admitted and 20 refused calls against a limit of 10, with the changes %j, passes: %s",
    (change, isOk) => {
      const fact = { what: "requests", limit: 10, admitted: 10, refused: 20, failed: 0 };
      expect(judgeLimits([{ ...fact, ...change }]).ok).toBe(isOk);
    },
  );

  test("a sweep fails the audit if it takes no lock or waits for another sweep", () => {
    const sweep = { name: "ai.sweep_runs", isGuarded: true, secondError: null };
    expect(judgeSweepers([sweep]).ok).toBe(true);
    expect(judgeSweepers([{ ...sweep, isGuarded: false }]).ok).toBe(false);
    expect(judgeSweepers([{ ...sweep, secondError: "canceling statement due to lock timeout" }]).ok).toBe(false);
  });

  test("counts kills per process, and reports a process that a ten-minute run never killed", () => {
    const span: Span = { kind: "web-2 SIGKILL", part: "web", from: 0, until: 1, killed: true };
    const services = ["web", "web-2"];
    const judged = (trafficMs: number) => judgeKills([span, span], { services, trafficMs });
    expect(judged(0).figures).toBe("web ×0, web-2 ×2");
    expect(judged(599_999).ok).toBe(true);
    expect(judged(600_000).failures).toEqual(["web was never killed"]);
  });

  test("the soak test never kills the load balancer or processes that simulate external services", () => {
    expect(killableOf(["balancer", "functions-3", "mail", "pgbouncer", "provider", "web"])).toEqual([
      "functions-3",
      "pgbouncer",
      "web",
    ]);
  });
});
