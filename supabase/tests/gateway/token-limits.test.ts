import { afterAll, beforeAll, describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import {
  abandon,
  addKey,
  begin,
  chatCall,
  createTenant,
  limitsOf,
  type OpenedRun,
  outcome,
  settle,
  type Tenant,
} from "./fixtures.ts";

/** A call whose client stated no output limit, so the gateway assumed this one. */
const assumed = { output_limit: 2_048, output_limit_assumed: true };
const usage = { input_tokens: 13, output_tokens: 12 };
const failure = { status: "failed", http_status: 502, usage_source: "unavailable" };

/** Opens rate windows for the next minute, so that they are still current if a new minute begins during the test. */
async function openWindows(db: Database, { keyId, workspaceId }: Tenant): Promise<void> {
  await db.query(
    `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
     select scope, subject_id::uuid, date_trunc('minute', now()) + interval '1 minute', 0, 0
     from (values ('key', $1), ('workspace', $2)) as w (scope, subject_id)
     on conflict do nothing`,
    [keyId, workspaceId],
  );
}

/** Returns the tokens counted in the rate windows of the key and the workspace. */
async function counted(db: Database, { keyId, workspaceId }: Tenant) {
  return one<{ key: number | null; workspace: number | null }>(db, {
    sql: `select
            (select tokens::int from ai.rate_windows where scope = 'key' and subject_id = $1) as key,
            (select tokens::int from ai.rate_windows where scope = 'workspace' and subject_id = $2) as workspace`,
    values: [keyId, workspaceId],
  });
}

async function extend(db: Database, run: OpenedRun, changes: object = {}): Promise<OpenedRun> {
  const step = { created_at: run.created_at, id: run.run_id, input_bytes: 300, output_limit: 100, ...changes };
  const row = await one(db, { sql: "select ai.extend_run($1) as answer", values: [JSON.stringify(step)] });
  return row.answer as OpenedRun;
}

describe("a call without an output limit", () => {
  test("a call without an output limit reserves 500 output tokens for each choice until it is settled", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 2_000 } });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant, assumed));
    expect(limitsOf(run).tokens).toEqual({ limit: 2_000, remaining: 1_400 });
    expect(limitsOf(await begin(db, chatCall(tenant, { ...assumed, choices: 2 }))).tokens?.remaining).toBe(300);
    await settle(db, [outcome(run, { usage })]);
    expect(await counted(db, tenant)).toMatchObject({ key: 1_125 });
  });

  test("a call with an output limit below 500 tokens reserves only that limit", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 2_000 } });
    const run = await begin(db, chatCall(tenant, { ...assumed, output_limit: 30 }));
    expect(limitsOf(run).tokens?.remaining).toBe(1_870);
  });

  test("admits a call whose input is exactly the token limit, and refuses it if the limit is one token lower", async ({
    db,
  }) => {
    const exact = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 100 } });
    expect(limitsOf(await begin(db, chatCall(exact, assumed))).tokens).toEqual({ limit: 100, remaining: 0 });
    const less = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 99 } });
    expect(await begin(db, chatCall(less, assumed))).toMatchObject({
      refused: "invalid_request",
      token_limit: { scope: "key", limit: 99, input: 100, counted: 100 },
    });
  });

  test("a call without an output limit still reserves credits for the longest possible output", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 2_000 } });
    const free = await createTenant(db, { credits: "1000" });
    const [limited, unlimited] = [await begin(db, chatCall(tenant, assumed)), await begin(db, chatCall(free, assumed))];
    expect(limited.reserved_usd).toBe(unlimited.reserved_usd);
  });
});

describe("a call that alone exceeds the token limit per minute", () => {
  test("a call that alone exceeds the token limit per minute is refused as invalid and not counted, and a call of exactly the limit is admitted", async ({
    db,
  }) => {
    const tenant = await createTenant(db, {
      credits: "1000",
      key: { tokensPerMinute: 2_000 },
      plan: { tokensPerMinute: 3_000, requestsPerMinute: 9 },
    });
    await openWindows(db, tenant);
    expect(await begin(db, chatCall(tenant, { output_limit: 1_901 }))).toMatchObject({
      refused: "invalid_request",
      token_limit: { scope: "key", limit: 2_000, input: 100, counted: 2_001 },
    });
    expect(await counted(db, tenant)).toEqual({ key: 0, workspace: 0 });
    const requests = "select sum(requests)::int as requests from ai.rate_windows where subject_id = any ($1)";
    expect(await db.query(requests, [[tenant.keyId, tenant.workspaceId]])).toEqual([{ requests: 0 }]);
    expect(await begin(db, chatCall(tenant, { output_limit: 1_900 }))).not.toHaveProperty("refused");
  });

  test("the workspace's token limit applies to a call if it is lower than the key's", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "1000",
      key: { tokensPerMinute: 2_000 },
      plan: { tokensPerMinute: 400 },
    });
    expect(await begin(db, chatCall(tenant, { output_limit: 301 }))).toMatchObject({
      token_limit: { scope: "workspace", limit: 400, counted: 401 },
    });
    expect(await begin(db, chatCall(tenant, { output_limit: 300 }))).not.toHaveProperty("refused");
  });

  test("refuses a further step that alone exceeds the token limit per minute", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 500 } });
    const run = await begin(db, chatCall(tenant));
    expect(await extend(db, run, { output_limit: 401 })).toMatchObject({
      refused: "invalid_request",
      token_limit: { scope: "key", limit: 500, input: 100, counted: 501 },
    });
    expect(await extend(db, run, { output_limit: 400, used_tokens: 0 })).not.toHaveProperty("refused");
  });
});

describe("a settled run", () => {
  const limits = { key: { tokensPerMinute: 10_000 }, plan: { tokensPerMinute: 20_000 } };

  test("a settled run counts its used tokens, including cached tokens, for the key and for the workspace", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    expect(await counted(db, tenant)).toEqual({ key: 200, workspace: 200 });
    await settle(db, [outcome(run, { usage: { ...usage, cached_input_tokens: 5 } })]);
    expect(await counted(db, tenant)).toEqual({ key: 25, workspace: 25 });
    const described = await one<{ answer: object }>(db, {
      sql: "select ai.describe_credential($1) as answer",
      values: [JSON.stringify(chatCall(tenant))],
    });
    expect(described.answer).toMatchObject({ limits: [{ remainingTokens: 9_975 }, { remainingTokens: 19_975 }] });
  });

  test("a settled run counts more tokens than it reserved if it used more", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run, { usage: { input_tokens: 4_000, output_tokens: 300 } })]);
    expect(await counted(db, tenant)).toEqual({ key: 4_300, workspace: 4_300 });
  });

  test("a run that failed without usage counts no tokens after its settlement", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    await settle(db, [outcome(await begin(db, chatCall(tenant)), failure)]);
    expect(await counted(db, tenant)).toEqual({ key: 0, workspace: 0 });
  });

  test("a settled run counts its tokens only once, even if it is reported again", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run, { usage }), outcome(run, { usage })]);
    await settle(db, [outcome(run, { usage })]);
    expect(await counted(db, tenant)).toEqual({ key: 25, workspace: 25 });
  });

  test("a late report about a swept run corrects the token counts of the key and the workspace", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    const soFar = [{ created_at: run.created_at, id: run.run_id, input_tokens: 10, output_tokens: 5, cost_usd: "0" }];
    await db.query("select ai.heartbeat_runs($1)", [JSON.stringify(soFar)]);
    await abandon(db, run);
    // Waits until the stack's own server has finished any sweep. While another sweep is running, ai.sweep_runs does
    // nothing.
    await db.query("select pg_advisory_xact_lock(hashtextextended('ai.sweep_runs', 0))");
    await db.query("select ai.sweep_runs()");
    expect(await counted(db, tenant)).toEqual({ key: 15, workspace: 15 });
    await settle(db, [outcome(run, { usage })]);
    expect(await counted(db, tenant)).toEqual({ key: 25, workspace: 25 });
  });

  test("settling a run does not change the token count of a later minute", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    await db.query(
      "update ai.rate_windows set window_start = window_start + interval '1 minute', tokens = 7 where subject_id = any ($1)",
      [[tenant.keyId, tenant.workspaceId]],
    );
    await settle(db, [outcome(run, { usage })]);
    expect(await counted(db, tenant)).toEqual({ key: 7, workspace: 7 });
  });

  test("settling a run that began in an earlier minute opens no rate window", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    const run = await begin(db, chatCall(tenant));
    await db.query("update ai.runs set tokens_reserved_at = tokens_reserved_at - interval '1 minute' where id = $1", [
      run.run_id,
    ]);
    await db.query("delete from ai.rate_windows where subject_id = any ($1)", [[tenant.keyId, tenant.workspaceId]]);
    await settle(db, [outcome(run, { usage })]);
    expect(await counted(db, tenant)).toEqual({ key: null, workspace: null });
  });

  test("a run without a token limit neither reserves nor counts tokens", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { requestsPerMinute: 10 } });
    const run = await begin(db, chatCall(tenant));
    const columns = "select reserved_tokens, tokens_reserved_at from ai.runs where id = $1";
    expect(await db.query(columns, [run.run_id])).toEqual([{ reserved_tokens: null, tokens_reserved_at: null }]);
    await settle(db, [outcome(run, { usage })]);
    expect(await counted(db, tenant)).toEqual({ key: 0, workspace: null });
  });
});

describe("a run with further steps", () => {
  const limits = { key: { tokensPerMinute: 700 }, plan: { tokensPerMinute: 20_000 } };

  test("token limits count an open run's usage plus its next step's reservation, and a settled run's total usage", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant, assumed));
    await extend(db, run, { ...assumed, used_tokens: 25 });
    expect(await counted(db, tenant)).toEqual({ key: 625, workspace: 625 });
    await extend(db, run, { ...assumed, used_tokens: 60 });
    expect(await counted(db, tenant)).toEqual({ key: 660, workspace: 660 });
    await settle(db, [outcome(run, { usage: { input_tokens: 60, output_tokens: 40 } })]);
    expect(await counted(db, tenant)).toEqual({ key: 100, workspace: 100 });
  });

  test("if the gateway does not report the usage of a run's earlier steps, each step's reservation is added to those of the earlier steps", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    await extend(db, run);
    expect(await counted(db, tenant)).toEqual({ key: 400, workspace: 400 });
  });

  test("a run that continues into a new minute counts only its later usage towards the new minute", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...limits });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    await db.query(
      "update ai.rate_windows set window_start = window_start + interval '1 minute', tokens = 0 where subject_id = any ($1)",
      [[tenant.keyId, tenant.workspaceId]],
    );
    await extend(db, run, { used_tokens: 80 });
    expect(await counted(db, tenant)).toEqual({ key: 200, workspace: 200 });
    await settle(db, [outcome(run, { usage: { input_tokens: 70, output_tokens: 50 } })]);
    expect(await counted(db, tenant)).toEqual({ key: 40, workspace: 40 });
  });
});

describe("token counts of a call that another limit refuses", () => {
  const keyed = { idempotency_key: "k", fingerprint: "ab".repeat(32) };
  const whole = {
    requests: { limit: 50, remaining: expect.any(Number) },
    tokens: { limit: 1_000, remaining: 1_000 },
    resetSeconds: expect.any(Number),
  };

  test.for([
    ["budget_exceeded", { credits: "1000", budget: "0.000001", workspaceTokens: 5_000 }],
    ["insufficient_credits", { credits: "0.1", budget: undefined, workspaceTokens: 5_000 }],
  ] as const)(
    "a call refused for %s counts no tokens, and its refusal reports the rate limits",
    async ([code, given], { db }) => {
      const tenant = await createTenant(db, {
        credits: given.credits,
        key: { tokensPerMinute: 1_000, requestsPerMinute: 50, monthlyBudgetUsd: given.budget },
        plan: { tokensPerMinute: given.workspaceTokens },
      });
      await openWindows(db, tenant);
      const refused = await begin(db, chatCall(tenant));
      expect(refused.refused).toBe(code);
      expect(limitsOf(refused)).toEqual(whole);
      expect(await counted(db, tenant)).toEqual({ key: 0, workspace: 0 });
    },
  );

  test("a call refused by the workspace's rate window counts no tokens for the key", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "1000",
      key: { tokensPerMinute: 1_000, requestsPerMinute: 50 },
      plan: { requestsPerMinute: 1 },
    });
    await openWindows(db, tenant);
    await begin(db, chatCall(tenant));
    const refused = await begin(db, chatCall(tenant));
    expect(refused.refused).toBe("rate_limit_exceeded");
    expect(limitsOf(refused)).toEqual({
      requests: { limit: 1, remaining: 0 },
      tokens: { limit: 1_000, remaining: 800 },
      resetSeconds: expect.any(Number),
    });
  });

  test("a call refused for its idempotency key counts no tokens, even if the token limit is used up", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 300 } });
    await openWindows(db, tenant);
    await begin(db, chatCall(tenant, keyed));
    expect(await begin(db, chatCall(tenant, keyed))).toEqual({ refused: "request_in_progress" });
    expect(await counted(db, tenant)).toMatchObject({ key: 200 });
  });

  test("refusing to extend a run counts no tokens and reports the rate limits", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "1",
      key: { tokensPerMinute: 100_000, requestsPerMinute: 50 },
      plan: { tokensPerMinute: 200_000 },
    });
    await openWindows(db, tenant);
    const run = await begin(db, chatCall(tenant));
    const refused = await extend(db, run, { output_limit: 32_768 });
    expect(refused.refused).toBe("insufficient_credits");
    expect(limitsOf(refused)).toMatchObject({
      requests: { limit: 50, remaining: 49 },
      tokens: { limit: 100_000, remaining: 99_800 },
    });
    expect(await counted(db, tenant)).toEqual({ key: 200, workspace: 200 });
  });
});

test("a call refused by the key's request limit reports that limit and the workspace's token limit", async ({ db }) => {
  const tenant = await createTenant(db, {
    credits: "1000",
    key: { requestsPerMinute: 1 },
    plan: { tokensPerMinute: 5_000 },
  });
  await openWindows(db, tenant);
  await begin(db, chatCall(tenant));
  const refused = await begin(db, chatCall(tenant));
  expect(refused.refused).toBe("rate_limit_exceeded");
  expect(limitsOf(refused)).toEqual({
    requests: { limit: 1, remaining: 0 },
    tokens: { limit: 5_000, remaining: 4_800 },
    resetSeconds: expect.any(Number),
  });
});

describe("token limits with concurrent callers", () => {
  let db: Database;
  let close: () => Promise<void>;
  beforeAll(() => {
    ({ db, close } = openPool(12));
  });
  afterAll(() => close());

  test("after concurrent calls, the rate windows hold the tokens that the runs used", { timeout: 60_000 }, async () => {
    const limits = { tokensPerMinute: 1_000_000 };
    const tenant = await createTenant(db, { credits: "100000", key: limits, plan: limits });
    await openWindows(db, tenant);
    const other = await addKey(db, tenant, { tokensPerMinute: 900_000 });
    await openWindows(db, { ...tenant, keyId: other.id });
    const keys = [tenant.keyHash, other.hash];
    let used = 0;
    await Promise.all(
      Array.from({ length: 150 }, async (_, n) => {
        const run = await begin(db, chatCall({ ...tenant, keyHash: keys[n % 2] ?? "" }, n % 3 ? assumed : {}));
        expect(run).not.toHaveProperty("refused");
        const steps = n % 5 === 0 ? [{ ...assumed, used_tokens: 11 }] : [];
        for (const step of steps) expect(await extend(db, run, step)).not.toHaveProperty("refused");
        const tokens = n % 7 === 0 ? undefined : { input_tokens: 10 + n, output_tokens: n };
        used += tokens ? 10 + 2 * n : 0;
        const report = tokens ? outcome(run, { usage: tokens }) : outcome(run, failure);
        await Promise.all([settle(db, [report]), settle(db, [report])]);
      }),
    );
    const windows = await db.query<{ scope: string; tokens: number }>(
      `select scope::text, sum(tokens)::int as tokens from ai.rate_windows
       where subject_id = any ($1) group by 1 order by 1`,
      [[tenant.keyId, other.id, tenant.workspaceId]],
    );
    expect(windows).toEqual([
      { scope: "key", tokens: used },
      { scope: "workspace", tokens: used },
    ]);
  });

  test("calls without an output limit are admitted while their actual usage fits the token limit, whether sequential or concurrent", async () => {
    const tenant = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 10_000 } });
    await openWindows(db, tenant);
    const call = async () => {
      const run = await begin(db, chatCall(tenant, { ...assumed, input_bytes: 40 }));
      expect(run).not.toHaveProperty("refused");
      await settle(db, [outcome(run, { usage })]);
    };
    for (let n = 0; n < 8; n++) await call();
    expect(await counted(db, tenant)).toMatchObject({ key: 200 });
    await Promise.all(Array.from({ length: 8 }, call));
    expect(await counted(db, tenant)).toMatchObject({ key: 400 });
  });
});
