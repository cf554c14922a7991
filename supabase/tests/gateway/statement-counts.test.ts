import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { superuserUrl } from "../../../scripts/test/start-stack.ts";
import { createActor } from "../actors.ts";
import { type Database, one } from "../database.ts";
import { connectWithKey, createAgentScene } from "../keys/agent-fixtures.ts";
import { appTokenCall, bindKey, sessionCall } from "./call-fixtures.ts";
import { chatCall, createTenant, type OpenedRun, outcome, type Tenant } from "./fixtures.ts";

type Maximum = { begin: readonly [one: number, sixteen: number]; settle: readonly [one: number, sixteen: number] };

/**
 * The maximum number of statements that Postgres executes to begin and to settle a batch of one call and of 16 calls:
 * the one that the gateway sends, and those in functions and of foreign keys. Lower a number when the code needs fewer.
 */
const maximum: Record<string, Maximum> = {
  "a key": { begin: [6, 6], settle: [5, 5] },
  "a key with all limits": { begin: [11, 11], settle: [10, 10] },
  "a key with budgets of every period and an envelope": { begin: [11, 11], settle: [10, 10] },
  "a key with budgets that reserve the expected cost": { begin: [12, 12], settle: [12, 12] },
  "a key whose member pays": { begin: [6, 6], settle: [5, 5] },
  "a key and the default model": { begin: [6, 6], settle: [5, 5] },
  "an agent's key": { begin: [7, 7], settle: [5, 5] },
  "a key of an app": { begin: [4, 4], settle: [4, 4] },
  "an app token": { begin: [5, 5], settle: [4, 4] },
  "a member's session": { begin: [7, 7], settle: [5, 5] },
};

/** Returns a call of a new caller in a workspace of its own. */
const callers: Record<string, (db: Database) => Promise<object>> = {
  "a key": async (db) => chatCall(await createTenant(db, { credits: "1000" })),
  "a key with all limits": async (db) => chatCall(await createLimitedTenant(db)),
  "a key with budgets of every period and an envelope": async (db) => {
    const tenant = await createLimitedTenant(db);
    await db.query(
      `insert into ai.budgets (scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at)
       select 'key', $1, $2, p.period, case when p.period <> 'concurrent' then 100 end,
         case when p.period = 'concurrent' then 100 end, w.starts_at, w.ends_at
       from unnest('{day,week,total,concurrent}'::text[]) as p (period)
       cross join lateral ai.budget_window(p.period, 'Europe/Berlin', now()) as w`,
      [tenant.keyId, tenant.workspaceId],
    );
    await db.query(
      `insert into ai.workspace_policies (workspace_id, model_limits)
       values ($1, jsonb_build_object($2::text, '{"requests": 1000, "tokens": 1000000}'::jsonb))`,
      [tenant.workspaceId, tenant.model],
    );
    return chatCall(tenant, { envelope: { usd: "100", calls: 1_000 } });
  },
  "a key with budgets that reserve the expected cost": async (db) => {
    const tenant = await createLimitedTenant(db);
    await db.query("update ai.budgets set reserves_expected = true where workspace_id = $1", [tenant.workspaceId]);
    await db.query(
      `insert into ai.output_histories (workspace_id, model_id, feature, outputs)
       values ($1, $2, 'chat', array_fill(7, array[20]))`,
      [tenant.workspaceId, tenant.model],
    );
    return chatCall(tenant, { streamed: true, stoppable_providers: ["demo"] });
  },
  "a key whose member pays": async (db) => chatCall(await createTenant(db, { credits: "1000", payer: "member" })),
  "a key and the default model": async (db) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await db.query(
      `update ai.models m set kind = 'embedding',
         is_default = not exists (select from ai.models d where d.kind = 'embedding' and d.is_default)
       where m.id = $1`,
      [tenant.model],
    );
    await db.query(
      `insert into ai.model_grants (model_id, plan_id)
       select m.id, $1 from ai.models m where m.kind = 'embedding' and m.is_default on conflict do nothing`,
      [tenant.planId],
    );
    return chatCall(tenant, { kind: "embedding", model: undefined });
  },
  "an agent's key": async (db) => {
    const scene = await createAgentScene(db);
    const { hash } = await connectWithKey(db, scene);
    return chatCall(scene.tenant, { credential: { source: "key", hash } });
  },
  "a key of an app": async (db) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await bindKey(db, tenant);
    return chatCall(tenant, { workspace: tenant.workspaceId });
  },
  "an app token": async (db) => (await appTokenCall(db, await createTenant(db, { credits: "1000" }))).callOf(),
  "a member's session": async (db) => {
    const tenant = await createTenant(db, { credits: "1000" });
    return sessionCall(tenant, await createActor(db, { workspaceId: tenant.workspaceId, role: "member" }));
  },
};

/** Creates a tenant with a budget of each scope, and rate limits on key and workspace. None of them is reached. */
async function createLimitedTenant(db: Database): Promise<Tenant> {
  const rates = { requestsPerMinute: 1_000, tokensPerMinute: 1_000_000 };
  const label = "customer:7";
  const key = { ...rates, monthlyBudgetUsd: "100", entityId: label };
  const tenant = await createTenant(db, { credits: "1000", plan: rates, key });
  const { workspaceId, ownerId } = tenant;
  await db.query("select ai.set_budget('member', $1, $2, 100)", [ownerId, workspaceId]);
  await db.query("select ai.set_budget('workspace', $1, $1, 100)", [workspaceId]);
  await db.query("select ai.set_budget('label', ai.label_id($2), $1, 100, $2)", [workspaceId, label]);
  return tenant;
}

let client: Client;
let db: Database;

/**
 * Connects as the superuser, who alone may track the statements in functions, and works as `postgres` like other tests.
 * Each statement commits, because Postgres checks the foreign keys of rows that are new in a transaction again at each
 * update.
 */
beforeAll(async () => {
  const url = new URL(await superuserUrl(process.env.GATEHOUSE_STACK ?? ""));
  url.searchParams.set("options", "-c role=postgres -c pg_stat_statements.track=all");
  client = new Client({ connectionString: url.href });
  await client.connect();
  db = {
    query: async (sql, values) => (await client.query(sql, values)).rows,
    asUser: () => Promise.reject(new Error("this connection takes no role")),
    asRole: (_, work) => work(),
  };
});
afterAll(async () => {
  await db.query("update ai.models set is_default = false where kind = 'embedding' and is_default");
  await client.end();
});

/** Returns how often each statement was executed within a function. Only this file's connection tracks those. */
async function readCounts(): Promise<Map<string, { text: string; calls: number }>> {
  const rows = await db.query<{ id: string; text: string; calls: number }>(
    `select concat(s.userid, s.queryid) as id, s.query as text, s.calls::float8 as calls
     from extensions.pg_stat_statements s join pg_catalog.pg_database d on d.oid = s.dbid
     where d.datname = current_database() and not s.toplevel`,
  );
  return new Map(rows.map(({ id, text, calls }) => [id, { text, calls }]));
}

/** Runs one statement as the gateway. @returns its answer, and the statements that Postgres executed, most frequent first */
async function count<Answer>(sql: string, argument: object) {
  const before = await readCounts();
  const values = [JSON.stringify(argument)];
  const { answer } = await one<{ answer: Answer }>(db, { sql: `${sql} as answer`, values });
  const within = [...(await readCounts())]
    .map(([id, { text, calls }]) => ({ text, calls: calls - (before.get(id)?.calls ?? 0) }))
    .filter(({ calls }) => calls > 0)
    .sort((a, b) => b.calls - a.calls);
  const list = within.map(({ text, calls }) => `${calls} × ${text.replace(/\s+/g, " ").slice(0, 120)}`).join("\n");
  return { answer, executed: within.reduce((sum, { calls }) => sum + calls, 1), list };
}

async function beginAndSettle(calls: readonly object[]) {
  const requests = calls.map((call) => ({ ...call, request_id: randomUUID() }));
  const begin = await count<OpenedRun[]>("select ai.begin_runs($1)::json", { calls: requests });
  expect(begin.answer.map(({ refused }) => refused)).toEqual(calls.map(() => undefined));
  const settle = await count<object[]>(
    "select ai.settle_runs($1)",
    begin.answer.map((run) => outcome(run)),
  );
  expect(settle.answer).toHaveLength(calls.length);
  return { begin, settle };
}

describe("the statements that Postgres executes for a batch of calls", () => {
  test.for(Object.entries(maximum))("stay within the maximum for %s", async ([name, allowed]) => {
    const calls: object[] = [];
    for (let caller = 0; caller < 16; caller += 1) calls.push((await callers[name]?.(db)) ?? {});
    const faults: string[] = [];
    for (const [index, batch] of [calls.slice(0, 1), calls].entries()) {
      // The first call of a caller also creates its rows.
      await beginAndSettle(batch);
      const counts = await beginAndSettle(batch);
      for (const step of ["begin", "settle"] as const) {
        const { executed, list } = counts[step];
        const most = allowed[step][index] ?? 0;
        if (executed > most) faults.push(`${step} ${batch.length}: ${executed} statements, not ${most}:\n${list}`);
      }
    }
    expect(faults).toEqual([]);
  });

  test("include each lookup that a function makes in a loop", async () => {
    await db.query(
      `create function pg_temp.look_up(ids jsonb) returns bigint language plpgsql set search_path = '' as $$
       begin
         for place in 1..jsonb_array_length(ids) loop
           perform from ai.plans p where p.id = ids ->> place - 1;
         end loop;
         return (select count(*) from ai.plans);
       end $$`,
    );
    const lookUp = (ids: string[]) => count("select pg_temp.look_up($1)", ids);
    expect((await lookUp(["a"])).executed).toBe(3);
    expect((await lookUp(["a", "b", "c", "d"])).executed).toBe(6);
  });
});
