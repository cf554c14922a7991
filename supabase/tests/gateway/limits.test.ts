import { createHash, randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { sessionCall } from "./call-fixtures.ts";
import {
  addKey,
  batchOf,
  begin,
  books,
  chatCall,
  createTenant,
  limitsOf,
  outcome,
  settle,
  type TenantOptions,
} from "./fixtures.ts";

describe("enforcing budgets", () => {
  test("admits exactly 5 of 100 concurrent callers on a key's budget for 5 calls", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await createTenant(db, {
        credits: "100000",
        prices: { input: "1", output: "1" },
        key: { monthlyBudgetUsd: "0.001" },
      });
      const answers = await Promise.all(Array.from({ length: 100 }, () => begin(db, chatCall(tenant))));
      expect(answers.filter((answer) => !answer.refused)).toHaveLength(5);
      expect(await books(db, tenant)).toMatchObject({ open: 5, reserved: "10.00000000" });
      const other = await addKey(db, tenant);
      expect(await begin(db, chatCall({ ...tenant, keyHash: other.hash }))).not.toHaveProperty("refused");
    } finally {
      await close();
    }
  });

  test("a rotated key and its successor share budgets, rate window and idempotency keys", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await createTenant(db, {
        credits: "100000",
        prices: { input: "1", output: "1" },
        key: { monthlyBudgetUsd: "0.001", requestsPerMinute: 1000 },
      });
      const successor = createHash("sha256").update(tenant.keyHash).digest("hex");
      const [rotated] = await db.query("select ai.rotate_key($1, $2, $3, 3600, $5, $4) ->> 'outcome' as outcome", [
        tenant.ownerId,
        tenant.workspaceId,
        tenant.keyId,
        successor,
        randomBytes(6).toString("hex"),
      ]);
      expect(rotated).toEqual({ outcome: "issued" });
      const both = [tenant.keyHash, successor].map((keyHash) => ({ ...tenant, keyHash }));
      const calls = Array.from({ length: 60 }, (_, n) => begin(db, chatCall(both[n % 2] ?? tenant)));
      const answers = await Promise.all(calls);
      expect(answers.filter(({ refused }) => !refused)).toHaveLength(5);
      const described = both.map((each) =>
        one<{ answer: { limits: unknown; budgets: unknown } }>(db, {
          sql: "select ai.describe_credential($1) as answer",
          values: [JSON.stringify(chatCall(each))],
        }),
      );
      const [before, after] = (await Promise.all(described)).map(({ answer }) => answer.budgets);
      expect(after).toEqual(before);
      expect(after).toMatchObject([{ scope: "key", limitUsd: 0.001, reservedUsd: 0.001, remainingUsd: 0 }]);

      await db.query("update ai.budgets set limit_usd = 1 where subject_id = $1", [tenant.keyId]);
      const keyed = { idempotency_key: "k", fingerprint: "ab".repeat(32) };
      const verdicts = await Promise.all(
        Array.from({ length: 50 }, (_, n) => begin(db, chatCall(both[n % 2] ?? tenant, keyed))),
      );
      expect(verdicts.filter(({ refused }) => !refused)).toHaveLength(1);
      expect(new Set(verdicts.map(({ refused }) => refused))).toEqual(new Set([undefined, "request_in_progress"]));
    } finally {
      await close();
    }
  });

  test("a budget's reservation is released if a later limit refuses the call", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1", key: { monthlyBudgetUsd: "1" } });
    expect(await begin(db, chatCall(tenant, { output_limit: 32768 }))).toMatchObject({
      refused: "insufficient_credits",
    });
    expect(await budget(db, "key", tenant.keyId)).toEqual({ spent: "0.000000000000", reserved: "0.000000000000" });
  });

  test("each budget is charged the cost of the run", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { monthlyBudgetUsd: "1" } });
    await db.query(
      "insert into ai.budgets (scope, subject_id, workspace_id, limit_usd) values ('workspace', $1, $1, 1)",
      [tenant.workspaceId],
    );
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run)]);
    const spent = { spent: "0.000006150000", reserved: "0.000000000000" };
    expect(await budget(db, "key", tenant.keyId)).toEqual(spent);
    expect(await budget(db, "workspace", tenant.workspaceId)).toEqual(spent);
  });

  test("a budget of zero refuses every call, including free ones", async ({ db }) => {
    const free = { credits: "1", prices: { input: "0", output: "0" } };
    const shut = await createTenant(db, { ...free, key: { monthlyBudgetUsd: "0" } });
    const open = await createTenant(db, { ...free, key: { monthlyBudgetUsd: "0.000000000001" } });
    const refused = expect.objectContaining({ refused: "budget_exceeded", fitting_output_limit: null });
    expect(await begin(db, chatCall(shut))).toEqual(refused);
    const calls = [chatCall(shut), chatCall(open), chatCall(shut), chatCall(open)];
    const { answers } = await one<{ answers: object[] }>(db, {
      sql: "select ai.begin_runs($1)::json as answers",
      values: [batchOf(calls)],
    });
    const run = expect.objectContaining({ run_id: expect.any(String) });
    expect(answers).toEqual([refused, run, refused, run]);
  });

  // A call with 100 input and 1,000 output tokens at these prices costs up to 0.0011 USD.
  const held = { prices: { input: "1", output: "1" } };
  const whole = { output_limit: 1_000 };
  test.for<[string, TenantOptions, string, object]>([
    ["a budget that a running call holds", { key: { monthlyBudgetUsd: "0.002" } }, "select", { frees: true }],
    [
      "a budget that is spent",
      { key: { monthlyBudgetUsd: "0.002" } },
      "update ai.budgets set spent_usd = 0.001 where workspace_id = $1",
      {},
    ],
    ["a budget that is smaller than the call", { key: { monthlyBudgetUsd: "0.001" } }, "select", {}],
    [
      "a budget that a running call holds, although another is spent",
      { key: { monthlyBudgetUsd: "0.002" } },
      `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd, spent_usd, period_start)
       values ('workspace', $1, $1, 1, 0.999, date_trunc('month', now() at time zone 'UTC'))`,
      {},
    ],
    ["credits that a running call holds", { credits: "20" }, "select", { frees: true }],
    [
      "credits that are spent",
      { credits: "20" },
      "update ai.credit_accounts set balance = balance - 10 where workspace_id = $1",
      {},
    ],
  ])("says whether %s may have room once running calls are settled", async ([, options, change, expected], { db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...held, ...options });
    const running = await begin(db, chatCall(tenant, whole));
    await db.query(change === "select" ? "select from public.workspaces where id = $1" : change, [tenant.workspaceId]);
    const refused = options.credits ? "insufficient_credits" : "budget_exceeded";
    expect(await begin(db, chatCall(tenant, whole))).toMatchObject({ refused, ...expected });
    if (!running.refused) await settle(db, [outcome(running)]);
    const again = await begin(db, chatCall(tenant, whole));
    expect(again.refused === undefined).toBe("frees" in expected);
  });

  test("budgets reset each month", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { monthlyBudgetUsd: "0.0001" } });
    await db.query(
      "update ai.budgets set spent_usd = 0.0001, starts_at = null, period_start = period_start - interval '1 month' where subject_id = $1",
      [tenant.keyId],
    );
    expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
  });
});

describe("rate limits", () => {
  test("rate limits admit exactly as many requests per minute as the key allows", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { requestsPerMinute: 2 } });
    expect(limitsOf(await begin(db, chatCall(tenant))).requests).toEqual({ limit: 2, remaining: 1 });
    expect(limitsOf(await begin(db, chatCall(tenant))).requests).toEqual({ limit: 2, remaining: 0 });
    const refused = await begin(db, chatCall(tenant));
    expect(refused.refused).toBe("rate_limit_exceeded");
    const { requests, resetSeconds } = limitsOf(refused);
    expect(requests).toEqual({ limit: 2, remaining: 0 });
    expect(resetSeconds).toBeGreaterThanOrEqual(1);
    expect(resetSeconds).toBeLessThanOrEqual(60);
  });

  test("beginning a run reports only the rate limits that are set", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { requestsPerMinute: 2 } });
    const resetSeconds = expect.any(Number);
    expect(limitsOf(await begin(db, chatCall(tenant)))).toEqual({ requests: { limit: 2, remaining: 1 }, resetSeconds });
    const free = await createTenant(db, { credits: "100" });
    expect(limitsOf(await begin(db, chatCall(free)))).toEqual({});
    const tokens = await createTenant(db, { credits: "100", plan: { tokensPerMinute: 400 } });
    expect(limitsOf(await begin(db, chatCall(tokens)))).toEqual({
      tokens: { limit: 400, remaining: 200 },
      resetSeconds,
    });
  });

  test("reserved tokens count against the workspace's tokens per minute", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", plan: { tokensPerMinute: 400 } });
    expect(limitsOf(await begin(db, chatCall(tenant))).tokens?.remaining).toBe(200);
    expect(await begin(db, chatCall(tenant, { output_limit: 101 }))).toMatchObject({ refused: "rate_limit_exceeded" });
    expect(limitsOf(await begin(db, chatCall(tenant))).tokens?.remaining).toBe(0);
  });

  test("a workspace's policy can lower rate limits, but can't raise them above its plan", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", plan: { requestsPerMinute: 5 } });
    await db.query("insert into ai.workspace_policies (workspace_id, requests_per_minute) values ($1, 9)", [
      tenant.workspaceId,
    ]);
    expect(limitsOf(await begin(db, chatCall(tenant))).requests?.limit).toBe(5);
    await db.query("update ai.workspace_policies set requests_per_minute = 3 where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    expect(limitsOf(await begin(db, chatCall(tenant))).requests?.limit).toBe(3);
  });

  test("calls of an earlier minute don't count against rate limits", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { requestsPerMinute: 1 } });
    await begin(db, chatCall(tenant));
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "rate_limit_exceeded" });
    await db.query(
      "update ai.rate_windows set window_start = window_start - interval '1 minute' where subject_id = any($1)",
      [[tenant.keyId, tenant.workspaceId]],
    );
    expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
  });

  test("when the first call of a minute is refused, the reported rate limits don't include the previous minute", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "10", key: { requestsPerMinute: 3, tokensPerMinute: 400 } });
    await begin(db, chatCall(tenant));
    await db.query(
      "update ai.rate_windows set window_start = window_start - interval '1 minute' where subject_id = $1",
      [tenant.keyId],
    );
    const refused = await begin(db, chatCall(tenant, { output_limit: 2_048, output_limit_assumed: true }));
    expect(refused.refused).toBe("insufficient_credits");
    expect(limitsOf(refused)).toMatchObject({ requests: { remaining: 2 }, tokens: { remaining: 400 } });
  });

  test("a session's first 50 concurrent calls are all admitted if the rate limits have room", async () => {
    const { db, close } = openPool(25);
    try {
      const limits = { requestsPerMinute: 1000, tokensPerMinute: 1_000_000 };
      // The first call also opens the member's credit account. In plans without limits, the calls contend only for this
      // account.
      for (const plan of [limits, {}, limits, {}, {}]) {
        const tenant = await createTenant(db, { payer: "member", initialCredits: "1000", plan });
        const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
        // Opens the connections first, so that the calls overlap.
        await Promise.all(Array.from({ length: 25 }, () => db.query("select pg_sleep(0.05)")));
        const calls = Array.from({ length: 50 }, () => begin(db, sessionCall(tenant, claims)));
        expect((await Promise.all(calls)).filter(({ refused }) => refused)).toEqual([]);
      }
    } finally {
      await close();
    }
  });

  test("a limit of 10 requests a minute admits at most 10 calls a minute from 40 concurrent callers", async () => {
    const { db, close } = openPool(10);
    try {
      const tenant = await createTenant(db, { credits: "1000", key: { requestsPerMinute: 10 } });
      const answers = await Promise.all(Array.from({ length: 40 }, () => begin(db, chatCall(tenant))));
      const minutes = new Map<string, number>();
      for (const answer of answers.filter(({ refused }) => !refused)) {
        const minute = answer.created_at.slice(0, 16);
        minutes.set(minute, (minutes.get(minute) ?? 0) + 1);
      }
      // All calls fall into one minute, or into two if a new minute began meanwhile.
      expect([...minutes.values()].every((count) => count <= 10)).toBe(true);
      expect(minutes.size).toBeGreaterThan(0);
    } finally {
      await close();
    }
  });
});

test.for([
  [null, true],
  ["61 seconds", true],
  ["60 seconds", false],
] as const)("a call records the use of a key that was last used %s ago: %s", async ([ago, isRecorded], { db }) => {
  const tenant = await createTenant(db, { credits: "1" });
  await db.query("update ai.keys set last_used_at = now() - $2::interval where id = $1", [tenant.keyId, ago]);
  await begin(db, chatCall(tenant));
  const sql = "select last_used_at = now() as recorded from ai.keys where id = $1";
  expect(await one(db, { sql, values: [tenant.keyId] })).toEqual({ recorded: isRecorded });
});

async function budget(db: Database, scope: string, subjectId: string): Promise<{ spent: string; reserved: string }> {
  return one(db, {
    sql: "select spent_usd::text as spent, reserved_usd::text as reserved from ai.budgets where scope = $1 and subject_id = $2",
    values: [scope, subjectId],
  });
}
