import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { createTenant } from "./fixtures.ts";

const scopes = ["key", "app", "member", "label", "workspace"] as const;
const minute = "date_trunc('minute', now())";

const amount = fc.nat(3_000).map((thousandths) => (thousandths / 1_000).toFixed(3));
const tokens = fc.nat(300);

const runs = fc.array(
  fc.record({
    tenant: fc.nat(1),
    begun: fc.constantFrom("now", "now", "yesterday", "last month"),
    state: fc.constantFrom("open", "open", "open", "swept", "settled"),
    payer: fc.constantFrom("account", "account", "account", "none", "missing"),
    budgets: fc.subarray([...scopes]),
    label: fc.constantFrom("one", "two"),
    hasKey: fc.boolean(),
    reserved_usd: amount,
    reserved_tokens: fc.option(tokens),
    tokensAreCurrent: fc.constantFrom(true, true, false),
    counted: fc.record({ input_tokens: tokens, output_tokens: tokens, cost_usd: amount }),
    silentSeconds: fc.constantFrom(0, 60),
    idempotencyKey: fc.boolean(),
    route: fc.option(fc.constantFrom(1, 2)),
    first_byte_ms: fc.option(fc.nat(99)),
  }),
  { minLength: 1, maxLength: 6 },
);

const failed = { provider: "demo", model: "upstream", route: 1, status: 500, upstream_request_id: "request" };
const sound = fc.record({
  status: fc.constantFrom("succeeded", "failed", "cancelled"),
  http_status: fc.option(fc.constantFrom(200, 502)),
  error_code: fc.option(fc.constant("provider_error")),
  usage_source: fc.constantFrom("provider", "provider", "provider_partial", "estimated_partial", "unavailable"),
  route: fc.option(fc.constantFrom(1, 2)),
  estimated: fc.option(fc.boolean()),
  input_tokens: fc.option(tokens),
  cached_input_tokens: fc.option(tokens),
  audio_input_tokens: fc.option(tokens),
  output_tokens: fc.option(tokens),
  reasoning_tokens: fc.option(tokens),
  audio_output_tokens: fc.option(tokens),
  cache_write_tokens: fc.option(tokens),
  cache_write_1h_tokens: fc.option(tokens),
  image_input_tokens: fc.option(tokens),
  fee_requests: fc.option(fc.nat(3)),
  served_tier: fc.option(fc.constant("priority")),
  marks: fc.option(fc.constantFrom([], ["implausible"])),
  billing_name: fc.option(fc.constant("Demo")),
  billing_account: fc.option(fc.constant("acct")),
  cost_usd: amount,
  credits: fc.oneof(fc.constant("0"), amount),
  first_byte_ms: fc.option(fc.nat(99)),
  latency_ms: fc.option(fc.nat(99)),
  steps: fc.option(fc.constant([{ step: 1 }])),
  attempts: fc.option(
    fc.array(
      fc
        .constantFrom(undefined, "timeout", "skipped", "cancelled")
        .map((failure) => ({ ...failed, ...(failure ? { failure } : {}) })),
      { maxLength: 3 },
    ),
  ),
  key_unused: fc.option(fc.boolean()),
});
/** Changes that make an outcome impossible to store, or leave no run to store it in. */
const faults: object[] = [
  ...[{ usage_source: null }, { usage_source: "hearsay" }, { status: "running" }, { status: "over" }, { status: null }],
  ...[{ input_tokens: -1 }, { fee_requests: -1 }, { output_tokens: "many" }, { http_status: 99_999 }, { marks: null }],
  ...[{ cost_usd: null }, { cost_usd: "-1" }, { cost_usd: "1e30" }, { cost_usd: "NaN" }, { credits: null }],
  ...[{ credits: "-0.1" }, { credits: "much" }, { id: randomUUID() }, { id: "no id" }, { created_at: "no time" }],
  ...[{ attempts: [{ ...failed, failure: "timeout", route: "first" }] }, { attempts: [{ failure: "timeout" }] }],
  ...[{ attempts: "none" }, { attempts: [5] }, { latency_ms: 1.5 }, { estimated: "perhaps" }],
];
const batch = fc.record({
  runs,
  outcomes: fc.array(fc.record({ run: fc.nat(), outcome: sound }), {
    minLength: 1,
    maxLength: 9,
  }),
  faults: fc.array(fc.record({ at: fc.nat(), fault: fc.constantFrom(...faults) }), { maxLength: 2 }),
  junk: fc.constantFrom([], [], [], [5], [null, "run"], [[]]),
  isSweep: fc.constantFrom(false, false, false, true),
  /** The first tenant's account may hold too little, which makes its runs impossible to settle. */
  lacksReservation: fc.constantFrom(false, false, false, true),
});
type Batch = typeof batch extends fc.Arbitrary<infer Each> ? Each : never;
type World = { workspaces: string[]; accounts: string[]; lineages: string[]; apps: string[]; actors: string[] };

async function createWorld(db: Database): Promise<World> {
  const tenants = [await createTenant(db, { credits: "100" }), await createTenant(db, { credits: "100" })];
  const workspaces = tenants.map(({ workspaceId }) => workspaceId);
  const accounts = await db.query<{ id: string }>(
    "select id from ai.credit_accounts where workspace_id = any ($1) order by array_position($1, workspace_id)",
    [workspaces],
  );
  const ids = () => [randomUUID(), randomUUID()];
  return { workspaces, accounts: accounts.map(({ id }) => id), lineages: ids(), apps: ids(), actors: ids() };
}

type StoredRun = { id: string; created_at: string; account_id: string | null };

/** Stores the batch's runs with everything that they have reserved. */
async function store(db: Database, { world, given }: { world: World; given: Batch }): Promise<StoredRun[]> {
  const rows = given.runs.map(({ tenant, hasKey, payer, state, counted, ...run }) => ({
    id: randomUUID(),
    begun: run.begun,
    workspace_id: world.workspaces[tenant],
    actor_id: world.actors[tenant],
    app_id: world.apps[tenant],
    key_lineage_id: hasKey || run.budgets.includes("key") ? world.lineages[tenant] : null,
    entity_id: run.label,
    idempotency_key: run.idempotencyKey ? "key" : null,
    exempt: payer === "none",
    account_id: payer === "account" ? world.accounts[tenant] : payer === "missing" ? randomUUID() : null,
    status: state === "open" ? "running" : "failed",
    usage_source: state === "open" ? null : "estimated_partial",
    swept: state === "swept",
    budget_scopes: run.budgets,
    reserved_usd: run.reserved_usd,
    reserved_credits: payer === "none" ? 0 : run.reserved_usd,
    reserved_tokens: run.reserved_tokens,
    minutes_ago: run.reserved_tokens === null ? null : run.tokensAreCurrent ? 0 : 1,
    silent_seconds: run.silentSeconds,
    route: run.route,
    first_byte_ms: run.first_byte_ms,
    ...counted,
    billed_credits: payer === "none" ? 0 : counted.cost_usd,
  }));
  const stored = await db.query<StoredRun>(
    `insert into ai.runs
     select r.* from jsonb_to_recordset($1) as o (run jsonb),
       jsonb_populate_record(null::ai.runs, o.run || jsonb_build_object(
         'created_at', case o.run ->> 'begun'
           when 'now' then now()
           when 'yesterday' then now() - interval '1 day'
           else date_trunc('month', now(), 'UTC') - interval '1 microsecond'
         end,
         'tokens_reserved_at', ${minute} - (o.run ->> 'minutes_ago')::integer * interval '1 minute',
         'touched_at', now() - (o.run ->> 'silent_seconds')::integer * interval '1 second',
         'settled_at', case when o.run ->> 'status' <> 'running' then now() - interval '1 minute' end
       ) || $2) as r
     returning id, created_at::text, account_id`,
    [
      JSON.stringify(rows.map((run) => ({ run }))),
      JSON.stringify({
        ...{
          credential_source: "key",
          execution_mode: "background",
          feature: "chat",
          request_id: "test",
          model_id: "m",
        },
        ...{ streamed: false, routes: [], markup: 1.5, unmetered_credits: 0, cost_so_far_usd: 0, marks: [] },
        ...{ cached_input_tokens: 0, audio_input_tokens: 0, reasoning_tokens: 0, audio_output_tokens: 0 },
        ...{ cache_write_tokens: 0, cache_write_1h_tokens: 0, image_input_tokens: 0, fee_requests: 0 },
      }),
    ],
  );
  await db.query(
    `update ai.credit_accounts a set reserved = coalesce((
       select sum(r.reserved_credits) from ai.runs r where r.account_id = a.id and r.workspace_id = any ($1) and r.status = 'running'
     ), 0) * case when $2 and a.id = $3 then 0.5 else 1 end
     where a.id = any ($4)`,
    [world.workspaces, given.lacksReservation, world.accounts[0], world.accounts],
  );
  // One of the budgets still holds the sums of a past month, and one too small a reservation, as after it was deleted.
  await db.query(
    `insert into ai.budgets (scope, subject_id, workspace_id, label, reserved_usd, spent_usd, period_start)
     select t.scope, ai.budget_subject(t.scope, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, null),
       r.workspace_id, min(case when t.scope = 'label' then r.entity_id end),
       case t.scope when 'app' then 0.5 else 9 + coalesce(sum(r.reserved_usd) filter (where r.status = 'running'), 0) end, 7,
       date_trunc('month', now() at time zone 'UTC')::date - case t.scope when 'member' then 40 else 0 end
     from ai.runs r cross join unnest(r.budget_scopes) as t (scope)
     where r.workspace_id = any ($1)
     group by 1, 2, 3`,
    [world.workspaces],
  );
  await db.query(
    `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
     select s.scope, s.id, ${minute} + case when s.id = $3 then interval '1 minute' else interval '0' end, 9, 100000
     from (select 'workspace', unnest($1::uuid[]) union all select 'key', unnest($2::uuid[])) as s (scope, id)`,
    [world.workspaces, world.lineages, world.lineages[1]],
  );
  await db.query(
    `insert into ai.idempotency_keys (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
     select r.workspace_id, gen_random_uuid(), 'key', decode(repeat('ab', 32), 'hex'), r.created_at, r.id
     from ai.runs r where r.workspace_id = any ($1) and r.idempotency_key is not null`,
    [world.workspaces],
  );
  return stored;
}

type Row = Record<string, unknown>;
type State = Record<"runs" | "ledger" | "accounts" | "budgets" | "windows" | "keys" | "failures" | "days", Row[]>;

/** Returns everything that settlements change. */
async function readWorld(db: Database, { world, ids }: { world: World; ids: string[] }): Promise<State> {
  const read = (rows: string, order: string) =>
    `(select coalesce(jsonb_agg(to_jsonb(x) order by ${order}), '[]') from (${rows}) as x)`;
  return one(db, {
    sql: `select
      ${read(
        `select r.*, array(
           select ai.budget_subject(t.scope, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, null)
           from unnest(r.budget_scopes) as t (scope)
         ) as budget_subjects, r.touched_at < now() - interval '45 seconds' as is_silent
         from ai.runs r where workspace_id = any ($3)`,
        "x.id",
      )} as runs,
      ${read("select account_id, kind, amount, balance_after, run_created_at, run_id, row_number() over (order by id) as n from ai.credit_ledger where run_id = any ($1)", "x.n")} as ledger,
      ${read("select id, balance, reserved from ai.credit_accounts where id = any ($2)", "x.id")} as accounts,
      ${read("select b.*, period_start::timestamp at time zone 'UTC' as begins from ai.budgets b where workspace_id = any ($3)", "x.scope, x.subject_id, x.workspace_id")} as budgets,
      ${read("select * from ai.rate_windows where subject_id = any ($4)", "x.scope, x.subject_id")} as windows,
      ${read("select run_id, state from ai.idempotency_keys where run_id = any ($1)", "x.run_id")} as keys,
      ${read("select run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure, upstream_request_id from ai.failed_attempts where run_id = any ($1)", "x.run_id, x.failure")} as failures`,
    values: [ids, world.accounts, world.workspaces, [...world.workspaces, ...world.lineages]],
  });
}

type Report = { id: string; usage_source?: unknown; estimated?: unknown };

/** Returns whether reports of a run may change it. */
function mayChange(run: Row, { reports, given }: { reports: Report[]; given: Batch }): boolean {
  if (run.status === "running") return reports.length > 0 && (!given.isSweep || run.is_silent === true);
  const isActual = (report: Report) =>
    report.estimated !== true && (report.usage_source === "provider" || report.usage_source === "provider_partial");
  return run.swept === true && !given.isSweep && reports.some(isActual);
}

/** Returns the state that follows from how the runs changed: what each of them costs and no longer reserves. */
function expectedState(
  before: State,
  after: State,
): Pick<State, "accounts" | "budgets" | "windows"> & { charges: Row[] } {
  const sum = (amounts: number[]) => Math.round(amounts.reduce((total, each) => total + each, 0) * 1e8) / 1e8 + 0;
  const changes = after.runs.flatMap((run, at) => {
    const old = before.runs[at] as Row;
    if (run.settled_at === old.settled_at) return [];
    const isOpen = old.status === "running";
    const difference = (name: string) => sum([Number(run[name]), -Number(old[name])]);
    const used = Number(run.input_tokens) + Number(run.output_tokens);
    const counted = isOpen ? Number(old.reserved_tokens) : Number(old.input_tokens) + Number(old.output_tokens);
    return [
      {
        run,
        kind: isOpen ? "usage" : "adjustment",
        credits: isOpen ? Number(run.billed_credits) : difference("billed_credits"),
        usd: isOpen ? Number(run.cost_usd) : difference("cost_usd"),
        releasedCredits: isOpen ? Number(run.reserved_credits) : 0,
        releasedUsd: isOpen ? Number(run.reserved_usd) : 0,
        tokens: used - counted,
      },
    ];
  });
  return {
    charges: changes
      .filter(({ credits }) => credits !== 0)
      .map(({ run, kind, credits }) => ({ run_id: run.id, account_id: run.account_id, kind, amount: -credits })),
    accounts: before.accounts.map((account) => {
      const own = changes.filter(({ run }) => run.account_id === account.id);
      return {
        ...account,
        balance: sum([Number(account.balance), ...own.map(({ credits }) => -credits)]),
        reserved: sum([Number(account.reserved), ...own.map(({ releasedCredits }) => -releasedCredits)]),
      };
    }),
    budgets: before.budgets.map((budget) => {
      const own = changes.filter(
        ({ run }) =>
          run.workspace_id === budget.workspace_id && (run.budget_subjects as unknown[]).includes(budget.subject_id),
      );
      const inPeriod = own.filter(({ run }) => String(run.created_at) >= String(budget.begins));
      return {
        ...budget,
        reserved_usd: Math.max(sum([Number(budget.reserved_usd), ...own.map(({ releasedUsd }) => -releasedUsd)]), 0),
        spent_usd: sum([Number(budget.spent_usd), ...inPeriod.map(({ usd }) => usd)]),
      };
    }),
    windows: before.windows.map((window) => {
      const own = changes.filter(
        ({ run }) =>
          [run.workspace_id, run.key_lineage_id].includes(window.subject_id) &&
          run.tokens_reserved_at === window.window_start,
      );
      return { ...window, tokens: sum([Number(window.tokens), ...own.map(({ tokens: change }) => change)]) };
    }),
  };
}

test("settling random outcomes in one batch has the same result as settling them one by one", {
  timeout: 60_000,
}, async ({ db }) => {
  const world = await createWorld(db);
  const settle = async (outcomes: unknown[], { isSweep }: Batch) =>
    (
      await one<{ answer: unknown[] }>(db, {
        sql: `select ai.settle_outcomes($1, case when $2 then now() - interval '45 seconds' end) as answer`,
        values: [JSON.stringify(outcomes), isSweep],
      })
    ).answer;
  await fc.assert(
    fc.asyncProperty(batch, async (given) => {
      await db.query("savepoint world");
      try {
        const stored = await store(db, { world, given });
        const read = () => readWorld(db, { world, ids: stored.map(({ id }) => id) });
        const reports = given.outcomes.map(({ run, outcome }, at) => {
          const { id, created_at, account_id } = stored[run % stored.length] as StoredRun;
          const fault = given.faults.find((each) => each.at % given.outcomes.length === at)?.fault;
          return { order: `${account_id ?? "none"} ${id}`, outcome: { id, created_at, ...outcome, ...fault } };
        });
        const before = await read();
        await db.query("savepoint stored");
        const together = await settle([...given.junk, ...reports.map(({ outcome }) => outcome)], given);
        const after = await read();
        const { charges, ...rest } = expectedState(before, after);
        expect(after).toMatchObject(rest);
        expect(after.ledger).toHaveLength(charges.length);
        expect(after.ledger).toEqual(expect.arrayContaining(charges.map((charge) => expect.objectContaining(charge))));
        for (const [at, run] of after.runs.entries()) {
          const own = reports.filter(({ outcome }) => outcome.id === run.id).map(({ outcome }) => outcome);
          const isChangeable = mayChange(before.runs[at] as Row, { reports: own, given });
          const isChanged = run.settled_at !== before.runs[at]?.settled_at;
          if (isChanged) expect(isChangeable).toBe(true);
          const isPayable = run.exempt === true || world.accounts.includes(String(run.account_id));
          const isBookable = given.faults.length === 0 && !given.lacksReservation && isPayable;
          if (isChangeable && isBookable) expect(isChanged).toBe(true);
          if (isChanged && run.exempt) expect(run).toMatchObject({ billed_credits: 0 });
          if (isChanged) expect(run).toMatchObject({ swept: given.isSweep });
          for (const name of ["route", "first_byte_ms"] as const) {
            if (own.every((report) => report[name] === null)) expect(run[name]).toBe(before.runs[at]?.[name]);
          }
          if (isChanged && run.idempotency_key !== null) {
            const keys = after.keys.filter((key) => key.run_id === run.id);
            if (own.every((report) => report.key_unused === true)) expect(keys).toEqual([]);
            if (own.every((report) => report.key_unused !== true)) expect(keys).toMatchObject([{ state: "finished" }]);
          }
        }
        await db.query("rollback to savepoint stored");
        // Runs are settled in the order of account and id. Of several reports of a run, the first that changes it counts.
        const ordered = reports.toSorted((one, other) =>
          one.order < other.order ? -1 : one.order > other.order ? 1 : 0,
        );
        const alone: unknown[] = [];
        for (const { outcome } of ordered) alone.push(...(await settle([outcome], given)));
        expect({ answers: together, world: after }).toEqual({ answers: alone, world: await read() });
      } finally {
        await db.query("rollback to savepoint world");
      }
    }),
    { seed: 79, numRuns: 40, endOnFailure: true },
  );
});
