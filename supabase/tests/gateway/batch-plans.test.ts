import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { admitAll, batchOf, chatCall, createTenant, type OpenedRun, outcome, settle } from "./fixtures.ts";

/** The number of other callers' rate windows, as on a medium-sized platform. */
const others = 2_000;

/** Returns how many rows of the tables whose names begin with a text this transaction has read so far. */
async function countRead(db: Database, prefix: string): Promise<number> {
  const [row] = await db.query<{ read: string }>(
    `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) as read
     from pg_catalog.pg_stat_xact_user_tables where schemaname = 'ai' and starts_with(relname, $1)`,
    [prefix],
  );
  return Number(row?.read);
}

describe("a batch of calls", () => {
  test("a batch reads only its own callers' rate windows, even with query plans made when the table was nearly empty", async ({
    db,
  }) => {
    const tenant = await createTenant(db, {
      credits: "100",
      plan: { requestsPerMinute: 1_000 },
      key: { requestsPerMinute: 1_000 },
    });
    const calls = batchOf([1, 2, 3, 4].map(() => chatCall(tenant)));
    const begin = () => db.query("select ai.begin_runs($1)", [calls]);
    // The statistics may date from when the table was empty.
    await db.query("analyze ai.rate_windows");
    await begin();
    await db.query(
      `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
       select s, gen_random_uuid(), date_trunc('minute', now()), 0, 0
       from unnest('{key,workspace}'::text[]) s, generate_series(1, $1::integer)`,
      [others / 2],
    );
    const before = await countRead(db, "rate_windows");
    await begin();
    expect((await countRead(db, "rate_windows")) - before).toBeLessThan(100);
  });

  test("opens an envelope without reading all of the caller's budgets for each of its other envelopes", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    // The statistics may date from when the tables were empty.
    await db.query("analyze ai.envelopes; analyze ai.budgets");
    await db.query(
      `with opened as (
         insert into ai.envelopes (workspace_id, principal_id, label, opened_usd)
         select $1, $2, 'old-' || n, 1 from generate_series(1, 500) as n returning id
       )
       insert into ai.budgets (scope, subject_id, workspace_id, period, limit_usd, starts_at, ends_at)
       select 'envelope', id, $1, 'total', 1, now(), now() from opened`,
      [tenant.workspaceId, tenant.keyId],
    );
    const before = await countRead(db, "budgets");
    const [run] = await admitAll(db, [chatCall(tenant, { entity_id: "new", envelope: { usd: "5" } })]);
    expect(run).toMatchObject({ envelope: { label: "new" } });
    expect((await countRead(db, "budgets")) - before).toBeLessThan(10_000);
  });
});

describe("functions that a batch's statement calls for each of its calls", () => {
  const call = "jsonb_populate_record(null::ai.claim, '{}') as c";
  test.for([
    ["find_callers", `${call}, ai.find_callers(c.routes, null)`],
    ["live_agent_logins", `${call}, ai.live_agent_logins(c.account_id)`],
    ["allowed_openid_scopes", `${call}, private.allowed_openid_scopes(c.account_id, c.budget_scopes, null)`],
    ["agent_memberships", `${call}, ai.agent_memberships(c.account_id, c.account_id)`],
    [
      "usable_models",
      `${call}, ai.usable_models(c.run_id, c.label, c.budget_scopes, c.budget_scopes, c.budget_scopes)`,
    ],
    ["priced_routes", `${call}, ai.priced_routes(c.label, c.budget_scopes, null)`],
    ["input_tokens", `${call}, ai.input_tokens(c.tokens, c.tokens, c.tokens)`],
    ["maximum_cost", `${call}, ai.maximum_cost(c.routes, 1, 1, 1, c.tokens, true, c.label, c.tokens, false)`],
    [
      "price_refusal",
      `${call}, ai.models m where ai.price_refusal(c.request, c.caller, m, c.routes, c.cost_usd, 1, 1, c.tokens, c.tokens) is null`,
    ],
    ["call_refusal", `${call} where ai.call_refusal(c.caller, c.label) is null`],
    ["is_tier_priced", `${call} where ai.is_tier_priced(c.routes, c.label)`],
    ["reserved_tokens", `${call} where ai.reserved_tokens(c.tokens, c.tokens, c.tokens, true, c.tokens) > 1`],
    ["fits_window", `${call}, ai.rate_windows w where ai.fits_window(w, c.requests, c.tokens, c.requests, c.tokens)`],
    ["fits_budget", `${call}, ai.budgets b where ai.fits_budget(c, b)`],
    ["fits_when_settled", `${call}, ai.budgets b where ai.fits_when_settled(c, b)`],
    ["claimed_budget", `${call} where ai.claimed_budget(c, c.label) is null`],
  ] as const)("ai.%s is inlined", async ([name, from], { db }) => {
    const plan = await db.query(`explain (verbose, costs off) select 1 from ${from}`);
    expect(JSON.stringify(plan)).not.toContain(`.${name}(`);
  });
});

describe("ending runs", () => {
  test("ending runs reads none of the runs that began between the oldest and the newest one", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const runs = await admitAll(db, [chatCall(tenant), chatCall(tenant)]);
    await db.query(
      `insert into ai.runs (
         id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, streamed,
         model_id, routes, markup, exempt, reserved_usd, reserved_credits, status, settled_at, usage_source
       )
       select
         gen_random_uuid(), now() + n * interval '0.1 milliseconds', workspace_id, actor_id, credential_source,
         execution_mode, feature, request_id, streamed, model_id, routes, markup, exempt, 0, 0, 'succeeded', now(), 'provider'
       from ai.runs, generate_series(1, 2000) as n
       where id = $1`,
      [runs[0]?.run_id],
    );
    const [newest] = await db.query<{ created_at: string }>(
      `update ai.runs set created_at = created_at + interval '1 second' where id = $1 returning created_at::text`,
      [runs[1]?.run_id],
    );
    await db.query("analyze ai.runs");
    const before = await countRead(db, "runs_");
    const settled = await settle(db, [
      outcome(runs[0] as OpenedRun),
      outcome({ ...(runs[1] as OpenedRun), created_at: newest?.created_at ?? "" }),
    ]);
    expect(settled).toHaveLength(2);
    expect((await countRead(db, "runs_")) - before).toBeLessThan(100);
  });

  test("ending runs updates nearly all rows in place, without new index entries", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", plan: { requestsPerMinute: 1_000 } });
    // Also counts what was rolled back to a savepoint, and what Postgres has not reported of earlier transactions.
    const written = async () => {
      const [row] = await db.query<{ updated: string; moved: string }>(
        `select sum(n_tup_upd) as updated, sum(n_tup_upd - n_tup_hot_upd) as moved
         from pg_catalog.pg_stat_xact_user_tables where schemaname = 'ai' and relname like 'runs\\_%'`,
      );
      return { updated: Number(row?.updated), moved: Number(row?.moved) };
    };
    const before = await written();
    const runs = await admitAll(
      db,
      Array.from({ length: 30 }, () => chatCall(tenant)),
    );
    expect(runs.filter(({ run_id }) => run_id)).toHaveLength(30);
    await settle(
      db,
      runs.slice(0, 20).map((run) => outcome(run)),
    );
    for (const run of runs.slice(20)) await settle(db, [outcome(run)]);
    const { updated, moved } = await written();
    expect(updated - before.updated).toBeGreaterThanOrEqual(30);
    expect(moved - before.moved).toBeLessThanOrEqual(5);
  });
});
