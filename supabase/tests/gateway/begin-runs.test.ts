import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Database } from "../database.ts";
import { openPool } from "../pools.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";
import {
  addKey,
  admitAll,
  batchOf,
  begin,
  books,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  settle,
} from "./fixtures.ts";

let db: Database;
let close: () => Promise<void>;
beforeAll(() => {
  ({ db, close } = openPool(30));
});
afterAll(() => close());

async function beginAll(calls: readonly object[]): Promise<OpenedRun[]> {
  const [row] = await db.query<{ answer: OpenedRun[] }>("select ai.begin_runs($1)::json as answer", [batchOf(calls)]);
  return row?.answer ?? [];
}

/** Only the first four refusals of a batch suggest something. */
function withoutLaterSuggestions(answers: readonly OpenedRun[]): OpenedRun[] {
  let refusals = 0;
  return answers.map((answer) => {
    if (answer.refused === undefined) return answer;
    refusals += 1;
    return refusals > 4 ? { ...answer, fitting_output_limit: undefined, similar_models: undefined } : answer;
  });
}

describe("a run's id", () => {
  test.for([1, 2, 3])(
    "a run's id is a UUIDv7 of the time when the run began, and ends in the gateway's suffix, for %i runs in a batch",
    async (count) => {
      const tenant = await createTenant(db, { credits: "100" });
      const tails = Array.from({ length: count }, () => randomUUID().slice(-17));
      const calls = tails.map((run_id_suffix) => chatCall(tenant, { run_id_suffix }));
      const runs = count === 1 ? [await begin(db, calls[0] as object)] : await beginAll(calls);
      for (const [place, { run_id, created_at }] of runs.entries()) {
        const milliseconds = Date.parse(created_at).toString(16).padStart(12, "0");
        expect(run_id.replaceAll("-", "").slice(0, 13)).toBe(`${milliseconds}7`);
        expect(run_id.slice(-17)).toBe(tails[place]);
      }
    },
  );
});

describe("ai.begin_runs", () => {
  test("ai.begin_runs answers each call separately, in order", async () => {
    const [rich, poor] = [await createTenant(db, { credits: "10" }), await createTenant(db)];
    const stranger = { ...poor, keyHash: "00".repeat(32) };
    const calls = [
      chatCall(stranger),
      chatCall(rich),
      chatCall(poor),
      chatCall(rich, { model: "none" }),
      chatCall(rich),
    ];
    const answers = await beginAll(calls);
    expect(answers.map(({ refused }) => refused)).toEqual([
      "invalid_api_key",
      undefined,
      "insufficient_credits",
      "model_not_found",
      undefined,
    ]);
    const asked = calls.map((call) => (call as { request_id: string }).request_id);
    for (const place of [1, 4]) {
      const sql = "select request_id from ai.runs where created_at = $1 and id = $2";
      const { created_at, run_id } = answers[place] as OpenedRun;
      expect(await db.query(sql, [created_at, run_id])).toEqual([{ request_id: asked[place] }]);
    }
  });

  test("a batch answers each call like a call alone, with rate-limit counts that include the batch's earlier calls", async () => {
    const tenant = await createTenant(db, {
      credits: "100",
      key: { requestsPerMinute: 100 },
      plan: { requestsPerMinute: 50, tokensPerMinute: 1_000_000 },
      markup: "1.2",
    });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const alone = await begin(db, chatCall(tenant));
    const together = await beginAll([1, 2, 3].map(() => chatCall(tenant)));
    // The batch's first call is the second call in its rate window, or the first if a new window has opened since.
    const place = together[0]?.limits.minute === alone.limits.minute ? 2 : 1;
    for (const [n, answer] of together.entries()) {
      const { run_id, created_at, limits } = answer;
      const counts = alone.limits.counts.map((count, at) => (at % 2 && count !== null ? count * (place + n) : count));
      expect(answer).toEqual({ ...alone, run_id, created_at, limits: { minute: limits.minute, counts } });
    }
  });

  test("the calls of a batch get the same answers and reservations as separate calls", {
    timeout: 60_000,
  }, async () => {
    const rich = await createTenant(db, { credits: "9", plan: { requestsPerMinute: 12, tokensPerMinute: 2_000 } });
    const other = await createTenant(db, { credits: "2", key: { monthlyBudgetUsd: "0.0004" } });
    await db.query("insert into ai.model_grants (model_id, plan_id) values ($1, $2)", [other.model, rich.planId]);
    const keys = [
      rich.keyHash,
      (await addKey(db, rich, { requestsPerMinute: 3 })).hash,
      other.keyHash,
      "00".repeat(32),
    ];
    const call = fc.record({
      keyHash: fc.constantFrom(...keys),
      model: fc.constantFrom(rich.model, rich.model, other.model, "none"),
      changes: fc.constantFrom<object>(
        {},
        {},
        { input_bytes: 900 },
        { output_limit: 1, choices: 3 },
        { audio: true },
        { voice: "alloy" },
        { providers: [] },
        { workspace: rich.workspaceId },
      ),
    });
    const pool = openPool(1);
    const answersOf = async (ask: () => Promise<OpenedRun[]>) => {
      await pool.db.query("savepoint calls");
      const answers = await ask();
      const runs = await pool.db.query(
        `select workspace_id, key_id, model_id, routes, reserved_usd, reserved_credits, budget_scopes from ai.runs
         where workspace_id = any ($1) order by request_id`,
        [[rich.workspaceId, other.workspaceId]],
      );
      await pool.db.query("rollback to savepoint calls");
      const told = withoutLaterSuggestions(answers);
      return { answers: told.map(({ run_id: _, at: __, ...answer }) => answer), runs };
    };
    try {
      await pool.db.query("begin");
      await fc.assert(
        fc.asyncProperty(fc.array(call, { minLength: 2, maxLength: 12 }), async (told) => {
          const calls = told.map(({ changes, ...tenant }, n) =>
            chatCall(tenant, { ...changes, request_id: `n-${n + 100}` }),
          );
          const alone = await answersOf(async () => {
            const answers: OpenedRun[] = [];
            for (const each of calls) answers.push(...(await admitAll(pool.db, [each])));
            return answers;
          });
          expect(await answersOf(() => admitAll(pool.db, calls))).toEqual(alone);
        }),
        { numRuns: 60 },
      );
    } finally {
      await pool.db.query("rollback");
      await pool.close();
    }
  });

  test("ai.begin_runs answers a batch without calls", async () => {
    expect(await beginAll([])).toEqual([]);
  });

  test("a call whose input has no price does not count against the rate window", async () => {
    const tenant = await createTenant(db, { credits: "100", plan: { requestsPerMinute: 10 } });
    await db.query("delete from ai.model_prices where model_id = $1", [tenant.model]);
    await db.query(
      `insert into ai.model_prices (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million)
       values ($1, 'demo', 1000, 1, 1)`,
      [tenant.model],
    );
    const answers = await beginAll([9_000, 3, 3].map((input_bytes) => chatCall(tenant, { input_bytes })));
    expect(answers.map(({ refused }) => refused)).toEqual([undefined, "service_unavailable", "service_unavailable"]);
    const windows = await db.query("select requests from ai.rate_windows where subject_id = $1", [tenant.workspaceId]);
    expect(windows).toEqual([{ requests: 1 }]);
  });

  test("refuses every model if the list of denied models contains a null", async () => {
    const tenant = await createTenant(db, { credits: "100" });
    await db.query("insert into ai.workspace_policies (workspace_id, denied_models) values ($1, '{null}')", [
      tenant.workspaceId,
    ]);
    expect((await beginAll([chatCall(tenant)])).map(({ refused }) => refused)).toEqual(["model_not_found"]);
  });

  test("a batch admits no more calls than the balance, budget and rate window allow", async () => {
    const [one] = await db.query<{ due: string }>(
      "select ai.usd_to_credits(100 * 0.15e-6 + 100 * 0.6e-6, 1)::text as due",
    );
    const balance = await createTenant(db, { credits: one?.due ?? "" });
    const budget = await createTenant(db, { credits: "100", key: { monthlyBudgetUsd: "0.0001" } });
    const minute = await createTenant(db, { credits: "100", key: { requestsPerMinute: 1 } });
    const tenants = [balance, budget, minute];
    const answers = await beginAll([...tenants, ...tenants].map((tenant) => chatCall(tenant)));
    expect(answers.map(({ refused }) => refused)).toEqual([
      undefined,
      undefined,
      undefined,
      "insufficient_credits",
      "budget_exceeded",
      "rate_limit_exceeded",
    ]);
  });

  test("opens the credit account of each first-time payer in a batch only once", async () => {
    const tenants = await Promise.all(
      (["member", "workspace"] as const).map((payer) => createTenant(db, { payer, initialCredits: "50" })),
    );
    const calls = [...tenants, ...tenants].map((tenant) => chatCall(tenant));
    const batches = await Promise.all(Array.from({ length: 5 }, () => admitAll(db, calls)));
    expect(batches.flat().filter(({ refused }) => refused)).toEqual([]);
    for (const tenant of tenants) expect(await books(db, tenant)).toMatchObject({ ledger: "50.00000000", open: 10 });
  });

  test("ai.begin_runs is atomic: if one call raises an error, no run of the batch is stored", async () => {
    const tenant = await createTenant(db, { credits: "10" });
    const keyed = chatCall(tenant, { idempotency_key: randomUUID(), fingerprint: "00".repeat(32) });
    await expect(beginAll([keyed, keyed])).rejects.toMatchObject({ code: "21000" });
    await expect(beginAll([chatCall(tenant), chatCall(tenant, { input_bytes: "many" })])).rejects.toMatchObject({
      code: "22P02",
    });
    expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
  });

  test("a batch that waits too long for a lock begins none of its runs", async () => {
    const [held, free] = [await createTenant(db, { credits: "10" }), await createTenant(db, { credits: "10" })];
    const holder = db.query(
      `do $$ begin
         perform from ai.credit_accounts where workspace_id = '${held.workspaceId}' for update;
         perform pg_sleep(0.6);
       end $$`,
    );
    await expect
      .poll(() =>
        db
          .query("select from ai.credit_accounts where workspace_id = $1 for update nowait", [held.workspaceId])
          .catch(({ code }) => code),
      )
      .toBe("55P03");
    const hurried = JSON.stringify({ calls: [chatCall(free), chatCall(held)], wait_ms: 1_200, lock_wait_ms: 50 });
    await expect(db.query("select ai.begin_runs($1)", [hurried])).rejects.toMatchObject({ code: "55P03" });
    expect(await books(db, free)).toMatchObject({ open: 0 });
    expect((await begin(db, chatCall(free))).refused).toBeUndefined();
    await holder;
    expect((await beginAll([chatCall(free), chatCall(held)])).map(({ refused }) => refused)).toEqual([
      undefined,
      undefined,
    ]);
  });

  test("a batch reads rate windows and balances only after it has locked them", async () => {
    const [one] = await db.query<{ due: string }>(
      "select ai.usd_to_credits(100 * 0.15e-6 + 100 * 0.6e-6, 1)::text as due",
    );
    const [counted, paying] = [
      await createTenant(db, { credits: "100", key: { requestsPerMinute: 10 } }),
      await createTenant(db, { credits: "100" }),
    ];
    const calls = [counted, paying, counted, paying].map((tenant) => chatCall(tenant));
    expect((await admitAll(db, calls)).filter(({ refused }) => refused)).toEqual([]);
    // Sets the window to the next minute. The batch uses this window whether or not that minute has begun.
    const holder = db.query(
      `do $$ begin
         update ai.rate_windows set requests = 9, window_start = date_trunc('minute', now()) + interval '1 minute'
         where scope = 'key' and subject_id in (select lineage_id from ai.keys where workspace_id = '${counted.workspaceId}');
         update ai.credit_accounts set balance = reserved + ${one?.due} where workspace_id = '${paying.workspaceId}';
         perform pg_sleep(0.5);
       end $$`,
    );
    const sleeping = `select from pg_stat_activity where wait_event = 'PgSleep' and query like '%''${paying.workspaceId}''%'`;
    await expect.poll(() => db.query(sleeping)).toHaveLength(1);
    const answers = await admitAll(
      db,
      calls.map((call) => ({ ...call, run_id_suffix: randomUUID().slice(-17) })),
    );
    await holder;
    expect(answers.map(({ refused }) => refused)).toEqual([
      undefined,
      undefined,
      "rate_limit_exceeded",
      "insufficient_credits",
    ]);
    const [minute] = await db.query<{ requests: number }>(
      "select requests from ai.rate_windows where scope = 'key' and subject_id in (select lineage_id from ai.keys where workspace_id = $1)",
      [counted.workspaceId],
    );
    expect(minute).toEqual({ requests: 10 });
  });

  test("a batch locks a rate window even if another transaction creates the window at the same time", async () => {
    const subject = randomUUID();
    const maker = db.query(
      `do $$ begin
         insert into ai.rate_windows values ('key', '${subject}', date_trunc('minute', now()), 0, 0);
         perform pg_sleep(0.3);
       end $$`,
    );
    const sleeping = `select from pg_stat_activity where wait_event = 'PgSleep' and query like '%''${subject}''%'`;
    await expect.poll(() => db.query(sleeping)).toHaveLength(1);
    const batch = db.query(
      `do $$ begin
         perform ai.lock_rows(row(null, null, null, array[row('key', '${subject}', null)::ai.limit_subject], null, null)::ai.lock_list);
         perform pg_sleep(0.5);
       end $$`,
    );
    await maker;
    await expect
      .poll(() =>
        db
          .query("select from ai.rate_windows where subject_id = $1 for update nowait", [subject])
          .catch(({ code }) => code),
      )
      .toBe("55P03");
    await batch;
  });

  test("a call that has waited longer in total than the gateway waits begins no run", async () => {
    const tenant = await createTenant(db, { credits: "10", key: { monthlyBudgetUsd: "100" } });
    // Makes a call wait for the key's budget and then for the balance. Each wait is shorter than the lock timeout.
    const hold = (table: string, seconds: number) =>
      db.query(
        `do $$ begin
           perform from ai.${table} where workspace_id = '${tenant.workspaceId}' for update;
           perform pg_sleep(${seconds});
         end $$`,
      );
    const holders = [hold("budgets", 0.75), hold("credit_accounts", 1.5)];
    await new Promise((resolve) => setTimeout(resolve, 50));
    const once = "select ai.begin_runs($1)::json as answer";
    await expect(db.query(once, [batchOf([chatCall(tenant)])])).rejects.toMatchObject({ code: "57014" });
    await Promise.all(holders);
    expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
    await begin(db, chatCall(tenant));
    expect(await books(db, tenant)).toMatchObject({ open: 1 });
  });

  test("52 concurrent batches, single calls and settlements of the same rows all succeed, because they lock in the same order", async () => {
    const limits = { requestsPerMinute: 100_000, tokensPerMinute: 1_000_000_000, monthlyBudgetUsd: "1000" };
    const tenants = await Promise.all(
      (["workspace", "member", "workspace", "member"] as const).map((payer) =>
        createTenant(db, { payer, credits: "100000", plan: { requestsPerMinute: 100_000 }, key: limits }),
      ),
    );
    const keys = await Promise.all(
      tenants.flatMap((tenant) =>
        [tenant, tenant].map(async () => ({ ...tenant, keyHash: (await addKey(db, tenant, limits)).hash })),
      ),
    );
    const shuffled = () =>
      keys
        .toSorted(() => Math.random() - 0.5)
        .slice(0, 3)
        .map((tenant) => chatCall(tenant));
    const begun = await Promise.all([
      ...Array.from({ length: 12 }, () => admitAll(db, shuffled())),
      ...Array.from({ length: 40 }, () => admitAll(db, shuffled().slice(0, 1))),
    ]);
    expect(begun.flat().filter(({ refused }) => refused)).toEqual([]);
    const runs = begun.flat().toSorted(() => Math.random() - 0.5);
    const parts = Array.from({ length: 10 }, (_, part) => runs.filter((_run, place) => place % 10 === part));
    await Promise.all([
      ...parts.map((part) =>
        settle(
          db,
          part.map((run) => outcome(run)),
        ),
      ),
      ...Array.from({ length: 4 }, async () => {
        const more = await admitAll(db, shuffled());
        await settle(
          db,
          more.map((run) => outcome(run)),
        );
      }),
    ]);
    for (const tenant of tenants) {
      const { balance, ledger, reserved, open } = await books(db, tenant);
      expect([reserved, open, balance]).toEqual(["0.00000000", 0, ledger]);
    }
  });
});

describe("ai.release_orphaned_runs", () => {
  const tailOf = () => randomUUID().slice(-17);
  async function giveBack(tails: string[], asked_ms_ago = 10_000): Promise<string[] | undefined> {
    const lost = JSON.stringify({ tails, asked_ms_ago });
    const [row] = await db.query<{ left: string[] }>("select ai.release_orphaned_runs($1) as left", [lost]);
    return row?.left;
  }

  test("ai.release_orphaned_runs ends runs whose answer was lost, only once and at no cost, and frees their idempotency keys", async () => {
    const tenant = await createTenant(db, { credits: "10", key: { monthlyBudgetUsd: "100" } });
    const [alone, together] = [tailOf(), tailOf()];
    const key = { idempotency_key: randomUUID(), fingerprint: "00".repeat(32) };
    expect((await begin(db, chatCall(tenant, { ...key, run_id_suffix: alone }))).run_id.slice(-17)).toBe(alone);
    const others = await beginAll([chatCall(tenant, { run_id_suffix: together }), chatCall(tenant)]);
    expect(others[0]?.run_id.slice(-17)).toBe(together);
    const tails = [alone, together, tailOf()];
    const looks = await Promise.all(Array.from({ length: 50 }, () => giveBack(tails)));
    expect(looks.some((left) => left?.length === 0)).toBe(true);
    // The third run has not ended.
    expect(await books(db, tenant)).toMatchObject({ balance: "10.00000000", open: 1 });
    const sql = "select status, http_status, billed_credits from ai.runs where right(id::text, 17) = any ($1)";
    const ended = { status: "failed", http_status: 503, billed_credits: "0.00000000" };
    expect(await db.query(sql, [[alone, together]])).toEqual([ended, ended]);
    expect((await begin(db, chatCall(tenant, key))).refused).toBeUndefined();
  });

  test("ai.release_orphaned_runs examines only runs that began at most 15 seconds before the earliest reported request", async () => {
    const tenant = await createTenant(db, { credits: "10" });
    const tail = tailOf();
    const run = await begin(db, chatCall(tenant, { run_id_suffix: tail }));
    await db.query("update ai.runs set created_at = created_at - interval '20 seconds' where id = $1", [run.run_id]);
    expect(await giveBack([tail], 1_000)).toEqual([]);
    expect(await books(db, tenant)).toMatchObject({ open: 1 });
    expect(await giveBack([tail], 10_000)).toEqual([]);
    expect(await books(db, tenant)).toMatchObject({ open: 0, reserved: "0.00000000" });
  });

  test.for([[], {}, { tails: ["a"] }, { tails: ["a"], asked_ms_ago: null }, { asked_ms_ago: 1 }, "a"])(
    "ai.release_orphaned_runs refuses %j",
    async (lost) => {
      const asked = db.query("select ai.release_orphaned_runs($1)", [JSON.stringify(lost)]);
      await expect(asked).rejects.toMatchObject({ code: "22023" });
    },
  );

  test("ai.release_orphaned_runs returns the id suffix of a run that is still being admitted", async () => {
    const tenant = await createTenant(db, { credits: "10" });
    const tail = tailOf();
    const holder = db.query(
      `do $$ begin
         perform from ai.credit_accounts where workspace_id = '${tenant.workspaceId}' for update;
         perform pg_sleep(0.5);
       end $$`,
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    const begun = begin(db, chatCall(tenant, { run_id_suffix: tail }));
    await expect.poll(() => giveBack([tail]), { interval: 20 }).toEqual([tail]);
    await Promise.all([holder, begun]);
    expect(await giveBack([tail])).toEqual([]);
    expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
  });
});

describe("the time that ai.begin_runs may take", () => {
  const run = (calls: readonly object[], limits: object) =>
    db.query("select ai.begin_runs($1) as answer", [JSON.stringify({ calls, ...limits })]);

  test("rolls back an admission that took longer than its gateway waits, and one whose transaction began long ago", async () => {
    const tenant = await createTenant(db, { credits: "100" });
    const late = { code: "57014" };
    await expect(run([chatCall(tenant)], { wait_ms: -1 })).rejects.toMatchObject(late);
    const holder = await openLine("postgres");
    try {
      await holder.client.query("begin");
      await holder.client.query("select pg_sleep(4.1)");
      const parameters = [JSON.stringify({ calls: [chatCall(tenant)], wait_ms: 20_000 })];
      await expect(holder.client.query("select ai.begin_runs($1)", parameters)).rejects.toMatchObject(late);
    } finally {
      await holder.client.end();
    }
    expect(await books(db, tenant)).toMatchObject({ open: 0 });
  });

  test("waits for a lock as long as the gateway says", async () => {
    const tenant = await createTenant(db, { credits: "100" });
    const holder = await openLine("postgres");
    try {
      await holder.client.query("begin");
      await holder.client.query("select from ai.credit_accounts where workspace_id = $1 for update", [
        tenant.workspaceId,
      ]);
      const calls = [chatCall(tenant)];
      await expect(run(calls, { wait_ms: 20_000, lock_wait_ms: 10 })).rejects.toMatchObject({ code: "55P03" });
      const waiting = run(calls, { wait_ms: 20_000 });
      await untilItWaits(db, { work: waiting, blocker: holder.pid });
      const blocked =
        "select backend_xid is not null as fenced from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
      // The sweep needs the transaction's id before the wait.
      expect(await db.query(blocked, [holder.pid])).toEqual([{ fenced: true }]);
      await holder.client.query("rollback");
      expect(await waiting).toHaveLength(1);
      expect(await books(db, tenant)).toMatchObject({ open: 1 });
    } finally {
      await holder.client.end();
    }
  });
});
