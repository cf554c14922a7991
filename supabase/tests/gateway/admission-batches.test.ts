import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, test } from "../database.ts";
import { appTokenCall, bindKey, sessionCall } from "./call-fixtures.ts";
import { addKey, admitAll, chatCall, createTenant, type OpenedRun, type Tenant } from "./fixtures.ts";

/** A call reserves 100 input and 100 output tokens: 0.0002 USD, or 2 credits. */
const prices = { input: "1", output: "1" };
const label = "customer:7";

/** Creates a workspace with every kind of caller and a budget of every scope, and returns the calls' credentials. */
async function createCallers(db: Database, tenant: Tenant) {
  const own = await addKey(db, tenant, { requestsPerMinute: 5, tokensPerMinute: 900, monthlyBudgetUsd: "1" });
  const labelled = await addKey(db, tenant, { entityId: label, requestsPerMinute: 6 });
  const limited = await addKey(db, tenant, { tokensPerMinute: 700, allowedModels: [tenant.model] });
  const bound = await addKey(db, tenant, { monthlyBudgetUsd: "1" });
  const app = await bindKey(db, { ...tenant, keyId: bound.id });
  const member = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
  const token = await appTokenCall(db, tenant, { claims: member });
  const budgets = [
    ["workspace", tenant.workspaceId, null],
    ["member", tenant.ownerId, null],
    ["member", member.sub, null],
    ["app", app.id, null],
    ["app", token.app.id, null],
  ];
  for (const [scope, subject, text] of budgets) {
    await db.query("select ai.set_budget($1, $2, $3, 1, $4)", [scope, subject, tenant.workspaceId, text]);
  }
  await db.query("select ai.set_budget('label', ai.label_id($2), $1, 1, $2)", [tenant.workspaceId, label]);
  const ofKey = ({ hash }: { hash: string }) => chatCall({ ...tenant, keyHash: hash });
  return [
    chatCall(tenant),
    ...[own, labelled, limited, bound].map(ofKey),
    sessionCall(tenant, member),
    token.callOf(),
    token.callOf({ kind: "speech" }),
    ofKey({ hash: "00".repeat(32) }),
  ];
}

const few = (limit: number) => fc.option(fc.integer({ min: 0, max: limit }), { nil: null });

/** The limits of a workspace, low enough that some of a dozen calls don't fit. Budgets are in calls of 0.0002 USD. */
const limits = fc.record({
  planRequests: few(12),
  planTokens: few(2_600),
  balance: fc.integer({ min: -1, max: 20 }),
  /** Each budget's limit, amount spent, and state: this month, last month, refused before, or deleted limit. */
  budgets: fc.array(
    fc.record({
      limit: few(12),
      spent: fc.integer({ min: 0, max: 6 }),
      isOfLastMonth: fc.boolean(),
      refusedSeconds: few(120),
    }),
    { minLength: 9, maxLength: 9 },
  ),
  /** Requests and tokens that the current minute already counts, if it has a window. */
  windows: few(3),
  isWindowPast: fc.boolean(),
  refusedSeconds: few(120),
});
type Limits = typeof limits extends fc.Arbitrary<infer Value> ? Value : never;

async function setLimits(db: Database, tenant: Tenant, { balance, budgets, ...set }: Limits): Promise<void> {
  const { planId, workspaceId } = tenant;
  await db.query(
    "update ai.plans set requests_per_minute = nullif($2, 0), tokens_per_minute = nullif($3, 0) where id = $1",
    [planId, set.planRequests, set.planTokens],
  );
  await db.query(
    `update ai.credit_accounts set balance = reserved + $3, refused_at = now() - $4 * interval '1 second'
     where workspace_id = $1 or user_id = $2`,
    [workspaceId, tenant.ownerId, balance, set.refusedSeconds],
  );
  await db.query(
    `with changed as (
       select b.scope, b.subject_id, row_number() over (order by b.scope, b.subject_id) as place
       from ai.budgets b where b.workspace_id = $1
     )
     update ai.budgets b
     set limit_usd = (c.value ->> 'limit')::numeric * 0.0002, spent_usd = (c.value ->> 'spent')::numeric * 0.0002,
       starts_at = null, ends_at = null,
       period_start = (date_trunc('month', now() at time zone 'UTC')
         - case when (c.value ->> 'isOfLastMonth')::boolean then interval '1 month' else interval '0' end)::date,
       refused_at = now() - (c.value ->> 'refusedSeconds')::integer * interval '1 second'
     from changed p
     join jsonb_array_elements($2) with ordinality as c (value, place) on c.place = p.place
     where b.workspace_id = $1 and b.scope = p.scope and b.subject_id = p.subject_id`,
    [workspaceId, JSON.stringify(budgets)],
  );
  await db.query(
    `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
     select s.scope, s.id, date_trunc('minute', now()) - $3 * interval '1 minute', $2, $2 * 100
     from (
       select 'key' as scope, k.lineage_id as id from ai.keys k where k.workspace_id = $1
       union all select 'workspace', $1
     ) as s
     where $2 is not null`,
    [workspaceId, set.windows, set.isWindowPast ? 1 : 0],
  );
  await db.query("update ai.keys set last_used_at = now() - $2 * interval '1 second' where workspace_id = $1", [
    workspaceId,
    set.refusedSeconds,
  ]);
}

/** The state that admissions write, without ids and times that differ from run to run. */
async function readState(db: Database, tenants: Tenant[]): Promise<unknown[]> {
  const isOfPayer = `a.workspace_id = any ($1)
     or a.user_id in (select m.user_id from public.workspace_members m where m.workspace_id = any ($1))`;
  const tables = [
    `select to_jsonb(r) - array['id', 'account_id'] as row from ai.runs r where r.workspace_id = any ($1)
     order by r.request_id`,
    `select to_jsonb(w) as row from ai.rate_windows w
     where w.subject_id = any ($1) or w.subject_id in (select k.lineage_id from ai.keys k where k.workspace_id = any ($1))
     order by w.scope, w.subject_id`,
    `select to_jsonb(b) as row from ai.budgets b where b.workspace_id = any ($1)
     order by b.workspace_id, b.scope, b.subject_id`,
    `select to_jsonb(a) - array['id'] as row from ai.credit_accounts a where ${isOfPayer}
     order by a.workspace_id, a.user_id`,
    `select jsonb_build_array(k.id, k.last_used_at) as row from ai.keys k where k.workspace_id = any ($1) order by k.id`,
    `select to_jsonb(i) - array['run_id'] || jsonb_build_object('request', r.request_id) as row
     from ai.idempotency_keys i left join ai.runs r on r.created_at = i.run_created_at and r.id = i.run_id
     where i.workspace_id = any ($1) order by i.workspace_id, i.principal_id, i.key`,
    `select jsonb_build_array(l.kind, l.amount, l.balance_after, a.workspace_id, a.user_id) as row
     from ai.credit_ledger l join ai.credit_accounts a on a.id = l.account_id
     where ${isOfPayer} order by a.workspace_id, a.user_id, l.id`,
  ];
  const states: unknown[] = [];
  for (const sql of tables) states.push(await db.query(sql, [tenants.map(({ workspaceId }) => workspaceId)]));
  return states;
}

const change = fc.constantFrom<object>(
  {},
  {},
  {},
  { input_bytes: 900 },
  { input_bytes: 3_000 },
  { output_limit: 1, choices: 3 },
  { output_limit_assumed: true, output_limit: 1_000 },
  { entity_id: label },
  { entity_id: "other" },
  { session_label: label },
  { is_free: true },
  { model: "none" },
  { model: "other" },
  { voice: "alloy" },
  { providers: [] },
  { workspace: randomUUID() },
  { fee_requests: 2 },
  { images: 2, audio_seconds: 1 },
  { service_tier: "priority" },
  { idempotency_key: "running", fingerprint: "00".repeat(32) },
  { idempotency_key: "running", fingerprint: "11".repeat(32) },
  { idempotency_key: "finished", fingerprint: "00".repeat(32) },
  { idempotency_key: "expired", fingerprint: "00".repeat(32) },
);

/** Leaves out what a batch says only of its first refusals, and the run's id. */
function withoutSuggestions(answer: OpenedRun): Record<string, unknown> {
  const omitted = ["run_id", "fitting_output_limit", "similar_models", "regions", "allowed_regions"];
  return Object.fromEntries(
    Object.entries(answer).filter(([name]) => !("refused" in answer && omitted.includes(name)) && name !== "run_id"),
  );
}

test("random batches get the same answers and leave the same rows as their calls one by one, with all limits at once", async ({
  db,
}) => {
  const first = await createTenant(db, { prices, credits: "1000", markup: "1.2" });
  const second = await createTenant(db, { prices, payer: "member", initialCredits: "7" });
  const others = await createTenant(db, { prices });
  const tenants = [first, second];
  const callers: object[] = [];
  for (const tenant of tenants) callers.push(...(await createCallers(db, tenant)));
  await db.query("insert into ai.model_grants (model_id, plan_id) values ($1, $2), ($1, $3)", [
    others.model,
    first.planId,
    second.planId,
  ]);
  for (const key of ["running", "finished", "expired"]) {
    await db.query(
      `insert into ai.idempotency_keys (workspace_id, principal_id, key, fingerprint, state, run_created_at, run_id, expires_at)
       select k.workspace_id, k.lineage_id, $2, decode(repeat('00', 32), 'hex'),
         case $2 when 'running' then 'running' else 'finished' end, now(), gen_random_uuid(),
         now() + case $2 when 'expired' then interval '-1 hour' else interval '1 hour' end
       from ai.keys k where k.workspace_id = any ($1)`,
      [tenants.map(({ workspaceId }) => workspaceId), key],
    );
  }
  const call = fc.record({ caller: fc.nat(callers.length - 1), changes: change });
  const after = async (limitsOfTenants: Limits[], admit: () => Promise<OpenedRun[]>) => {
    await db.query("savepoint admission");
    for (const [place, each] of limitsOfTenants.entries()) await setLimits(db, tenants[place] as Tenant, each);
    const answers = await admit();
    const state = await readState(db, tenants);
    await db.query("rollback to savepoint admission");
    return { answers: answers.map(withoutSuggestions), state };
  };
  const refusals = new Set<string | undefined>();
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(limits, limits),
      fc.array(call, { minLength: 2, maxLength: 14 }),
      async (limitsOfTenants, picked) => {
        const keys = new Set<unknown>();
        const calls = picked.map(({ caller, changes }, place) => {
          const request = { ...callers[caller], ...changes, request_id: `call-${place + 100}` } as Record<
            string,
            unknown
          >;
          if (request.model === "other") request.model = others.model;
          // A batch has each idempotency key once. Otherwise its calls would wait for each other.
          if (request.idempotency_key && keys.has(request.idempotency_key)) delete request.idempotency_key;
          keys.add(request.idempotency_key);
          return request;
        });
        const alone = await after(limitsOfTenants, async () => {
          const answers: OpenedRun[] = [];
          for (const each of calls) answers.push(...(await admitAll(db, [each])));
          return answers;
        });
        for (const { refused } of alone.answers) refusals.add(refused as string | undefined);
        expect(await after(limitsOfTenants, () => admitAll(db, calls))).toEqual(alone);
      },
    ),
    { seed: 79, numRuns: 30, endOnFailure: true },
  );
  expect([...refusals].toSorted()).toEqual([
    "budget_exceeded",
    "idempotency_key_reused",
    "idempotency_key_used",
    "insufficient_credits",
    "insufficient_scope",
    "invalid_api_key",
    "invalid_request",
    "model_not_found",
    "rate_limit_exceeded",
    "request_in_progress",
    "unsupported_parameter",
    "workspace_mismatch",
    undefined,
  ]);
});
