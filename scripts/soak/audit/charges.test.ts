import { describe, expect, test } from "vitest";
import type { Span } from "../faults/spans.ts";
import type { Ask, Attempt } from "../traffic/ai-caller.ts";
import type { ProviderCall } from "../truth.ts";
import { type ChargeFacts, judgeBooks, judgeBudgets, judgeCharges, judgeReports } from "./charges.ts";
import type { BookFact, BudgetFact, RunFact } from "./facts.ts";

// 100 input and 50 output tokens cost (100 × 0.15 + 50 × 0.6) ÷ 1,000,000 = 0.000045; × 10,000 × 1.2 = 0.54 credits.
const prices = [{ min_input_tokens: 0, input: "0.15", cached_input: "0.075", output: "0.6" }];
const run: RunFact = {
  id: "run-1",
  tenant: "payer",
  requestId: "request-1",
  idempotencyKey: "key-1",
  status: "succeeded",
  usageSource: "provider",
  errorCode: null,
  swept: false,
  exempt: false,
  createdAt: 1_000,
  settledAt: 2_000,
  inputTokens: 100,
  cachedInputTokens: 0,
  outputTokens: 50,
  reasoningTokens: 0,
  costUsd: "0.000045000000",
  billedCredits: "0.54000000",
  reservedUsd: "0.000100000000",
  creditsPerUsd: "12000",
  prices,
  charged: "0.54000000",
  entries: 1,
};
const call: ProviderCall = {
  call: 1,
  requestId: "run-1",
  model: "demo-chat",
  startedAt: "2026-01-01T00:00:01Z",
  endedAt: "2026-01-01T00:00:02Z",
  status: 200,
  usage: { input: 100, cachedInput: 0, output: 50, reasoning: 0 },
  usageReported: true,
  aborted: false,
};
const attempt: Attempt = {
  requestId: "request-1",
  startedAt: 900,
  endedAt: 2_100,
  status: 200,
  told: { runId: "run-1", billedCredits: "0.54", costUsd: "0.000045", usageSource: "provider" },
  left: false,
};
const ask: Ask = { tenant: "payer", what: "whole", idempotencyKey: "key-1", attempts: [attempt] };
const kill: Span = { kind: "functions SIGKILL", part: "functions", from: 1_500, until: 1_800, killed: true };
const swept: Partial<RunFact> = {
  status: "failed",
  usageSource: "unavailable",
  errorCode: "abandoned",
  swept: true,
  costUsd: "0",
  billedCredits: "0",
  charged: "0",
  entries: 0,
};
const lostAnswer: Ask = { ...ask, attempts: [{ ...attempt, status: null, told: null }] };

/** Returns the names of the checks that fail. */
function failing(facts: Partial<ChargeFacts>): string[] {
  return judgeCharges({ runs: [run], calls: [call], asks: [ask], spans: [], ...facts })
    .filter(({ ok }) => !ok)
    .map(({ check }) => check);
}

test("the charges audit passes if usage is charged once and reported as charged", () => {
  expect(failing({})).toEqual([]);
});

describe("Lost charges", () => {
  test("reports a lost charge if a provider call belongs to no run", () => {
    expect(failing({ runs: [], asks: [] })).toEqual(["no lost charge"]);
  });
  test("reports a lost charge if a fully answered call cost nothing", () => {
    const free = {
      ...run,
      usageSource: "unavailable",
      costUsd: "0",
      billedCredits: "0",
      charged: "0",
      entries: 0,
    } as const;
    expect(failing({ runs: [free], asks: [] })).toEqual(["no lost charge"]);
  });
  test("reports a lost charge if the sweep closed a run although the functions were not killed", () => {
    expect(failing({ runs: [{ ...run, ...swept }], asks: [lostAnswer] })).toEqual(["no lost charge"]);
  });
  test("reports a lost charge if a swept run began after the functions were killed", () => {
    const later = { ...run, ...swept, createdAt: 1_600 };
    expect(failing({ runs: [later], asks: [lostAnswer], spans: [kill] })).toEqual(["no lost charge"]);
  });
  test("reports a lost charge if a run was left open although the functions had time to finish before they stopped", () => {
    const told = { ...kill, killed: false };
    expect(failing({ runs: [{ ...run, ...swept }], asks: [lostAnswer], spans: [told] })).toEqual(["no lost charge"]);
  });
  test("reports a lost charge if a run has fewer tokens than the provider counted", () => {
    expect(failing({ runs: [{ ...run, outputTokens: 49 }] })).toEqual(["charges are the provider's truth"]);
  });
  test("reports a wrong charge if the run's cost differs in the last digit", () => {
    const off = { ...run, costUsd: "0.000045000001" };
    expect(failing({ runs: [off], asks: [] })).toEqual(["charges are the provider's truth"]);
  });
  test("reports a lost charge if the ledger has no entry for the run", () => {
    expect(failing({ runs: [{ ...run, charged: "0", entries: 0 }] })).toEqual(["ledger is runs"]);
  });
});

describe("Runs left open without a provider call", () => {
  const orphan = { ...run, ...swept, id: "run-2", requestId: "request-2", idempotencyKey: null };
  const ended: Span = { ...kill, kind: "postgres SIGKILL", part: "postgres" };

  test("reports a run left open without a provider call, unless the functions were killed while the run was being opened", () => {
    expect(failing({ runs: [run, orphan] })).toEqual(["no lost charge"]);
    expect(failing({ runs: [run, orphan], spans: [kill] })).toEqual([]);
    // The functions were killed at 1,500 and answered again at 1,800. Postgres can create a run in between if the
    // functions requested it before they were killed.
    expect(failing({ runs: [run, { ...orphan, createdAt: 1_800 }], spans: [kill] })).toEqual([]);
    expect(failing({ runs: [run, { ...orphan, createdAt: 1_801 }], spans: [kill] })).toEqual(["no lost charge"]);
  });

  test("reports a run left open without a provider call, unless Postgres stopped while the run was being opened", () => {
    expect(failing({ runs: [run, orphan], spans: [ended] })).toEqual([]);
    expect(failing({ runs: [run, { ...orphan, createdAt: 3_301 }], spans: [ended] })).toEqual(["no lost charge"]);
    expect(failing({ runs: [run, orphan], spans: [{ ...ended, kind: "slow disk" }] })).toEqual(["no lost charge"]);
  });
});

test("a run that the sweeper closed is not a lost charge if the functions were killed during the run", () => {
  expect(failing({ runs: [{ ...run, ...swept }], spans: [kill] })).toEqual([]);
});

test("allows an estimated charge only if the client disconnected", () => {
  const guessed = { ...run, status: "cancelled", usageSource: "estimated_partial" } as const;
  expect(failing({ runs: [guessed], asks: [{ ...ask, attempts: [{ ...attempt, told: null, left: true }] }] })).toEqual(
    [],
  );
  expect(failing({ runs: [guessed] })).toEqual(["no lost charge"]);
  expect(failing({ runs: [{ ...guessed, reservedUsd: "0.000044" }], asks: [lostAnswer] })).toEqual(["ledger is runs"]);
});

describe("Double charges", () => {
  const second = { ...run, id: "run-2", requestId: "request-2" };
  const again = { ...attempt, requestId: "request-2", told: null };
  const twice = { ...ask, attempts: [attempt, again] };

  test("reports a double charge if the provider worked twice for an idempotency key", () => {
    expect(
      failing({ runs: [run, second], calls: [call, { ...call, call: 2, requestId: "request-2" }], asks: [twice] }),
    ).toEqual(["no double charge"]);
  });
  test("reports a double charge if an idempotency key was charged twice for one provider call", () => {
    const free = { ...second, usageSource: "estimated_partial" } as const;
    expect(failing({ runs: [run, free], asks: [twice] })).toEqual(["no double charge"]);
  });
  test("reports a double charge if the ledger charged a run twice", () => {
    expect(failing({ runs: [{ ...run, charged: "1.08", entries: 2 }] })).toEqual(["ledger is runs"]);
  });
  test("reports a double charge if two runs have the same request", () => {
    expect(failing({ runs: [run, { ...second, requestId: "request-1" }] })).toContain("no lost charge");
  });
});

test("finds answers that report a wrong charge or a run that doesn't exist", () => {
  const telling = (told: Attempt["told"]) => failing({ asks: [{ ...ask, attempts: [{ ...attempt, told }] }] });
  const said = { runId: "run-1", billedCredits: "0.54", costUsd: "0.000045", usageSource: "provider" };
  expect(telling({ ...said, billedCredits: "0.55" })).toEqual(["answers tell what was charged"]);
  expect(telling({ ...said, costUsd: "0.000046" })).toEqual(["answers tell what was charged"]);
  expect(telling({ ...said, runId: "run-9" })).toEqual(["answers tell what was charged"]);
});

describe("the audit of the books", () => {
  const books: BookFact = {
    tenant: "payer",
    granted: "100",
    balance: "99.46000000",
    reserved: "0.00000000",
    ledger: "99.46000000",
    billed: "0.54000000",
    openRuns: 0,
  };
  const judged = (change: Partial<BookFact>) => judgeBooks([{ ...books, ...change }]).map(({ ok }) => ok);

  test("the audit of the books passes if runs, ledger and balances agree", () =>
    expect(judged({})).toEqual([true, true]));
  test("the audit of the books fails if a run is still open", () =>
    expect(judged({ openRuns: 1 })).toEqual([false, true]));
  test("the audit of the books fails if credits are still reserved", () =>
    expect(judged({ reserved: "0.00000001" })).toEqual([false, true]));
  test("the audit of the books fails if the ledger and a balance differ", () =>
    expect(judged({ ledger: "99.46000001" })).toEqual([true, false]));
  test("the audit of the books fails if the runs and the ledger differ", () =>
    expect(judged({ billed: "0.55" })).toEqual([true, false]));
});

describe("the audit of budgets", () => {
  const envelope: BudgetFact = {
    ...{ name: "envelope/total task-1", limitUsd: "0.0002", maxCalls: 6, calls: 6, runs: 6 },
    ...{ spentUsd: "0.000200000000", costUsd: "0.0002", reservedUsd: "0.000000000000", overrunUsd: "0" },
  };
  const judged = (change: Partial<BudgetFact>) => judgeBudgets([{ ...envelope, ...change }]).ok;

  test("the audit of budgets passes if a budget counts its runs", () => expect(judged({})).toBe(true));
  test("the audit of budgets fails if a budget misses a run's cost", () =>
    expect(judged({ costUsd: "0.000199999999" })).toBe(false));
  test("the audit of budgets fails if a budget still reserves something", () =>
    expect(judged({ reservedUsd: "0.000000000001" })).toBe(false));
  test("the audit of budgets fails if more was spent than the limit and the overruns", () => {
    const spent = { spentUsd: "0.000200000001", costUsd: "0.000200000001" };
    expect(judged({ ...spent, overrunUsd: "0.000000000001" })).toBe(true);
    expect(judged(spent)).toBe(false);
  });
  test("the audit of budgets fails if an envelope admitted too many calls, or counts others than its runs", () => {
    expect(judged({ calls: 7, runs: 7 })).toBe(false);
    expect(judged({ calls: 5 })).toBe(false);
  });
});

test("finds a usage report that omits a run or differs by a digit", () => {
  const runs = { requests: 2, costUsd: "0.000090000000", billedCredits: "1.08000000" };
  const judged = (said: object) => judgeReports([{ where: "/v1/usage", said: { ...runs, ...said }, runs }]).ok;
  expect(judged({ costUsd: "0.00009" })).toBe(true);
  expect(judged({ requests: 1 })).toBe(false);
  expect(judged({ costUsd: "0.000090000001" })).toBe(false);
  expect(judged({ billedCredits: "1.07999999" })).toBe(false);
});
