import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect } from "vitest";
import { bindKey } from "./ai-callers.ts";
import { addKey, type Begun, chatCall, createTenant, type Tenant } from "./ai-fixtures.ts";
import { type Database, test } from "./database.ts";

/** Keys that meet in minutes, budgets and balances: of one workspace, of one payer, and of nobody else. */
type World = { callers: Pick<Tenant, "keyHash" | "model">[]; bound: Pick<Tenant, "keyHash" | "model">; ids: string[] };

async function createWorld(db: Database): Promise<World> {
  // As in ai.begin_runs.
  await db.query("set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off");
  const shared = await createTenant(db, { credits: "1", markup: "1.2", key: { monthlyBudgetUsd: "1" } });
  const [own, other] = [
    await createTenant(db, { payer: "member", credits: "1", key: { monthlyBudgetUsd: "1" } }),
    await createTenant(db, { payer: "member", prices: { input: "3", output: "0.7" } }),
  ];
  await db.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = 'member'`,
    [other.workspaceId, own.ownerId],
  );
  const second = await addKey(db, shared, { monthlyBudgetUsd: "1" });
  const guest = await addKey(db, { ...other, ownerId: own.ownerId });
  const bound = await addKey(db, shared);
  await bindKey(db, { ...shared, keyId: bound.id });
  await db.query("insert into ai.budgets (scope, subject_id, workspace_id) values ('workspace', $1, $1)", [
    shared.workspaceId,
  ]);
  await db.query(
    `insert into ai.model_prices (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million)
     values ($1, 'demo', 300, 9, 0.1)`,
    [shared.model],
  );
  return {
    callers: [shared, { ...shared, keyHash: second.hash }, own, { ...other, keyHash: guest.hash }],
    bound: { ...shared, keyHash: bound.hash },
    ids: [shared, own, other].map(({ workspaceId }) => workspaceId),
  };
}

const amount = fc.integer({ min: 0, max: 60 });
const rare = fc.option(fc.integer({ min: 1, max: 6 }), { nil: null, freq: 2 });
/** What each key, workspace and payer has room for: the n-th number is the n-th one's, none is no limit. */
const room = fc.record({
  keyRequests: fc.array(rare, { minLength: 4, maxLength: 4 }),
  workspaceRequests: fc.array(rare, { minLength: 3, maxLength: 3 }),
  tokens: fc.option(fc.integer({ min: 1, max: 4_000 }), { nil: null, freq: 2 }),
  budgetUsd: fc.option(amount, { nil: null, freq: 2 }),
  credits: fc.oneof(amount, fc.constant(1_000_000)),
  used: fc.integer({ min: 0, max: 3 }),
  minutesAgo: fc.integer({ min: -1, max: 2 }),
});
type Room = typeof room extends fc.Arbitrary<infer Value> ? Value : never;
const oneCall = fc.record({
  caller: fc.integer({ min: 0, max: 3 }),
  input_bytes: fc.integer({ min: 0, max: 2_000 }),
  output_limit: fc.integer({ min: 1, max: 500 }),
  choices: fc.integer({ min: 1, max: 2 }),
  odd: fc.constantFrom(undefined, undefined, undefined, undefined, "stranger", "model", "speech", "provider"),
});
type OneCall = typeof oneCall extends fc.Arbitrary<infer Value> ? Value : never;

async function furnish(db: Database, world: World, { keyRequests, workspaceRequests, ...room }: Room): Promise<void> {
  await db.query(
    `update ai.keys k set requests_per_minute = r.requests, tokens_per_minute = $3
     from unnest($1::text[], $2::int[]) as r (hash, requests) where k.secret_hash = decode(r.hash, 'hex')`,
    [world.callers.map(({ keyHash }) => keyHash), keyRequests, room.tokens],
  );
  await db.query(
    `insert into ai.workspace_policies (workspace_id, requests_per_minute, tokens_per_minute)
     select *, $3::bigint * 2 from unnest($1::uuid[], $2::int[])`,
    [world.ids, workspaceRequests, room.tokens],
  );
  await db.query(
    `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
     select 'workspace', w, date_trunc('minute', now()) - make_interval(mins => $2), $3, $3 * 100
     from unnest($1::uuid[]) as w`,
    [world.ids, room.minutesAgo, room.used],
  );
  await db.query(
    `update ai.budgets set limit_usd = $2 * 0.0001, spent_usd = $3 * 0.0001, period_start = period_start - $4 * 31
     where workspace_id = any ($1)`,
    [world.ids, room.budgetUsd, room.used, Math.max(room.minutesAgo, 0)],
  );
  await db.query(
    `update ai.credit_accounts set balance = $2 / 10.0
     where workspace_id = any ($1) or user_id in (select created_by from ai.keys where workspace_id = any ($1))`,
    [world.ids, room.credits],
  );
}

function callOf(world: World, { caller, odd, ...size }: OneCall): object {
  const changes: Record<string, object> = {
    stranger: { credential: { source: "key", hash: "00".repeat(32) } },
    model: { model: "none" },
    speech: { kind: "speech" },
    provider: { providers: ["elsewhere"] },
  };
  return chatCall(world.callers[caller] as Tenant, {
    ...size,
    run_id_suffix: randomUUID().slice(-17),
    ...changes[odd ?? ""],
  });
}

/** What calls leave behind, but for ids and moments that are random anyway. */
async function traces(db: Database, { ids }: World): Promise<string> {
  const [row] = await db.query<{ traces: string }>(
    `select jsonb_build_object(
       'minutes', (
         select jsonb_agg(w order by w.scope, w.subject_id) from ai.rate_windows w
         where w.requests > 0
           and (w.subject_id in (select lineage_id from ai.keys where workspace_id = any ($1)) or w.subject_id = any ($1))
       ),
       'budgets', (select jsonb_agg(b order by b.subject_id) from ai.budgets b where b.workspace_id = any ($1)),
       'accounts', (
         select jsonb_agg(a order by a.id) from ai.credit_accounts a
         where a.workspace_id = any ($1) or a.user_id in (select created_by from ai.keys where workspace_id = any ($1))
       ),
       'used', (select jsonb_agg(k.last_used_at order by k.id) from ai.keys k where k.workspace_id = any ($1)),
       'runs', (select jsonb_agg(to_jsonb(r) - 'id' order by r.request_id) from ai.runs r where r.workspace_id = any ($1))
     )::text as traces`,
    [ids],
  );
  // As text: amounts have more digits than a number.
  return row?.traces ?? "";
}

/** Does work and undoes it, however it ends. */
async function undone<Result>(db: Database, work: () => Promise<Result>): Promise<Result> {
  await db.query("savepoint undone");
  try {
    return await work();
  } finally {
    await db.query("rollback to savepoint undone; release savepoint undone");
  }
}

/** Answers of the calls, one by one or together, and what they left. */
function attempt(db: Database, { world, sql, calls }: { world: World; sql: string; calls: object[] }) {
  return undone(db, async () => {
    const [row] = await db.query<{ answers: Begun[] }>(sql, [JSON.stringify(calls)]);
    return { answers: row?.answers ?? [], left: await traces(db, world) };
  });
}

/** Both ways, in a world that has room for so much. */
function compare(db: Database, { world, room, calls }: { world: World; room: Room; calls: object[] }) {
  return undone(db, async () => {
    await furnish(db, world, room);
    const single = await attempt(db, { world, sql: oneByOne, calls });
    const joint = await attempt(db, { world, sql: together, calls });
    return { single, joint };
  });
}

const oneByOne = `
  select jsonb_agg(ai.admit_call(c.value, ai.find_caller(c.value))::jsonb order by c.place) as answers
  from (select * from jsonb_array_elements($1) with ordinality as c (value, place) order by place) as c`;
const together = "select ai.admit_batch($1)::json as answers";

const withoutIds = (answers: Begun[]) => answers.map(({ run_id, ...answer }) => answer);
const verdicts = (answers: Begun[]) => answers.map(({ refused }) => refused ?? "admitted");

describe("calls that are decided about together", () => {
  test("get what they get one by one, to the last digit, whatever there is room for", { timeout: 60_000 }, async ({
    db,
  }) => {
    const world = await createWorld(db);
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(room, fc.array(oneCall, { minLength: 1, maxLength: 12 }), async (furniture, asked) => {
        const calls = asked.map((each) => callOf(world, each));
        const { single, joint } = await compare(db, { world, room: furniture, calls });
        expect(verdicts(joint.answers)).toEqual(verdicts(single.answers));
        expect(joint.left).toEqual(single.left);
        for (const verdict of verdicts(single.answers)) seen.add(verdict);
        // A call that is refused between others may have been counted where it came to nothing.
        if (verdicts(single.answers).every((verdict) => verdict === "admitted")) {
          expect(withoutIds(joint.answers)).toEqual(withoutIds(single.answers));
        }
      }),
      { numRuns: 150 },
    );
    // Nothing was left out.
    expect([...seen].toSorted()).toEqual([
      "admitted",
      "budget_exceeded",
      "insufficient_credits",
      "invalid_api_key",
      "model_not_found",
      "rate_limit_exceeded",
      "service_unavailable",
    ]);
  });

  test("keep to every limit also beside calls that are not plain", { timeout: 60_000 }, async ({ db }) => {
    const world = await createWorld(db);
    await fc.assert(
      fc.asyncProperty(room, fc.array(oneCall, { minLength: 2, maxLength: 10 }), async (furniture, asked) => {
        const calls = asked.map((each, place) =>
          place % 3 === 0 ? chatCall(world.bound) : callOf(world, { ...each, odd: undefined }),
        );
        const { single, joint } = await compare(db, { world, room: furniture, calls });
        if (!verdicts(single.answers).some((verdict) => verdict !== "admitted")) {
          expect(joint.left).toEqual(single.left);
        }
        const { accounts, budgets, minutes } = JSON.parse(joint.left) as Record<string, Record<string, number>[]>;
        for (const { balance = 0, reserved = 0 } of accounts ?? []) expect(reserved).toBeLessThanOrEqual(balance);
        for (const { limit_usd, reserved_usd = 0 } of budgets ?? []) {
          if (limit_usd !== null) expect(reserved_usd).toBeLessThanOrEqual(Number(limit_usd));
        }
        for (const [place, limit] of furniture.workspaceRequests.entries()) {
          const minute = minutes?.find(({ subject_id }) => String(subject_id) === world.ids[place]);
          if (limit !== null) expect(minute?.requests ?? 0).toBeLessThanOrEqual(Math.max(limit, furniture.used));
        }
      }),
      { numRuns: 40 },
    );
  });

  test("are counted nowhere where no price reaches them, whatever stands before them", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", plan: { requestsPerMinute: 10 } });
    const model = `large-${tenant.model}`;
    await db.query(
      `with made as (
         insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', $1, 'test') returning id
       ), routed as (
         insert into ai.model_routes (model_id, position, provider_id, provider_model) select id, 1, 'demo', 'x' from made
       ), granted as (
         insert into ai.model_grants (model_id, plan_id) select id, $2 from made
       )
       insert into ai.model_prices
         (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million)
       select id, 'demo', 1000, 1, 1 from made`,
      [model, tenant.planId],
    );
    const sized = (input_bytes: number) =>
      chatCall(tenant, { model, input_bytes, run_id_suffix: randomUUID().slice(-17) });
    const [row] = await db.query<{ answers: Begun[] }>(together, [JSON.stringify([sized(9_000), sized(3), sized(3)])]);
    expect(verdicts(row?.answers ?? [])).toEqual(["admitted", "service_unavailable", "service_unavailable"]);
    const minutes = await db.query("select requests from ai.rate_windows where subject_id = $1", [tenant.workspaceId]);
    expect(minutes).toEqual([{ requests: 1 }]);
  });

  test("are refused by a list of denied models whatever stands in it", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    await db.query("insert into ai.workspace_policies (workspace_id, denied_models) values ($1, '{null}')", [
      tenant.workspaceId,
    ]);
    for (const sql of [oneByOne, together]) {
      const [row] = await db.query<{ answers: Begun[] }>(sql, [JSON.stringify([chatCall(tenant)])]);
      expect(verdicts(row?.answers ?? [])).toEqual(["model_not_found"]);
    }
  });
});
