import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";

/** A call reserves 100 input and 100 output tokens: 0.0002 USD. A call with 13 and 7 tokens costs 0.00002 USD. */
const prices = { input: "1", output: "1" };
const label = "customer:7";
const scopes = "{workspace,app,key,member,label}";

type Budget = { position: string[]; scope: string; period: string; subjectId: string; [member: string]: unknown };

async function read(db: Database, { ownerId, workspaceId }: Tenant, after: string[] | null = null, limit = 50) {
  const { answer } = await db.asRole("service_role", () =>
    one<{ answer: { budgets: Budget[] } }>(db, {
      sql: `select ai.read_budgets($1, $2, $3, $4, '${scopes}', true) as answer`,
      values: [ownerId, workspaceId, after, limit],
    }),
  );
  return answer.budgets;
}

type Change = {
  scope?: string;
  subject?: string | null;
  label?: string | null;
  limit_usd?: string | null;
  read_limit_usd?: string | null;
  period?: string;
  time_zone?: string;
  thresholds?: number[];
  max_calls?: number | null;
  read_time_zone?: string;
  read_thresholds?: number[];
  reserves_expected?: boolean;
  read_reserves_expected?: boolean;
  read_max_calls?: number | null;
};

/** Calls ai.change_budget with named arguments, as the Data API does. */
async function change(db: Database, { ownerId, workspaceId }: Tenant, given: Change) {
  const { scope = "workspace", subject = scope === "workspace" ? workspaceId : null, ...rest } = given;
  const args = { limit_usd: null, read_limit_usd: null, ...rest, scope, subject };
  const names = Object.keys(args).map((name, place) => `, ${name} => $${place + 3}`);
  const { answer } = await db.asRole("service_role", () =>
    one<{ answer: object }>(db, {
      sql: `select ai.change_budget(member_id => $1, workspace => $2${names.join("")}) as answer`,
      values: [ownerId, workspaceId, ...Object.values(args)],
    }),
  );
  return answer;
}

/** Inserts a settled run that began at a moment given in SQL. */
const insertRun = (db: Database, { workspaceId, keyId, ownerId }: Tenant, { at, cost }: { at: string; cost: number }) =>
  db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
       model_id, routes, route, markup, status, usage_source, input_tokens, output_tokens, cost_usd, billed_credits,
       account_id, reserved_usd, reserved_credits, streamed, latency_ms, actor_id, entity_id, settled_at
     )
     select
       ai.run_id(moment), moment, $1, $2, $2, 'key', 'background', 'chat', 'test', 'm',
       '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1, 'succeeded', 'provider', 3, 4, $4, 0,
       a.id, 0, 0, false, 1, $3, $5, moment
     from (select ${at} as moment) m
     cross join ai.credit_accounts a
     where a.workspace_id = $1`,
    [workspaceId, keyId, ownerId, cost, label],
  );

const row = (db: Database, { workspaceId }: Tenant, period: string) =>
  one<Record<string, unknown>>(db, {
    sql: `select trim_scale(limit_usd)::text as limit, trim_scale(spent_usd)::text as spent, reserved_usd > 0 as reserved,
            time_zone, thresholds, max_calls, starts_at::text, ends_at::text
          from ai.budgets where workspace_id = $1 and period = $2`,
    values: [workspaceId, period],
  });

describe("a budget of any window", () => {
  test.for(
    (["day", "week", "month"] as const).flatMap((period) =>
      ["UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"].map(
        (zone) => [period, zone] as const,
      ),
    ),
  )("starts with the settled runs of its %s in %s, to the microsecond", async ([period, zone], { db }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { entityId: label } });
    // The start of the local period, computed without the functions under test.
    const start = `date_trunc('${period}', now() at time zone '${zone}') at time zone '${zone}'`;
    await insertRun(db, tenant, { at: `${start} - interval '1 microsecond'`, cost: 10 });
    await insertRun(db, tenant, { at: start, cost: 1 });
    await insertRun(db, tenant, { at: "now() - interval '1 year'", cost: 100 });
    for (const [scope, subject] of [
      ["workspace", tenant.workspaceId],
      ["key", tenant.keyId],
      ["member", tenant.ownerId],
      ["label", null],
    ] as const) {
      const given = { scope, subject, label: scope === "label" ? label : null, limit_usd: "200" };
      expect(await change(db, tenant, { ...given, period, time_zone: zone })).toEqual({ outcome: "changed" });
      expect(await change(db, tenant, { ...given, period: "total", time_zone: zone })).toEqual({ outcome: "changed" });
      const found = (await read(db, tenant)).filter((budget) => budget.scope === scope);
      expect(found, scope).toMatchObject([
        { period, timeZone: zone, limitUsd: "200", spentUsd: "1", thresholds: [50, 80, 100], maxCalls: null },
        { period: "total", timeZone: zone, spentUsd: "111", startsAt: null, endsAt: null },
      ]);
    }
    const windows = await db.query(
      `select distinct
         starts_at = ${start} as starts,
         ends_at = ((${start}) at time zone '${zone}' + interval '1 ${period}') at time zone '${zone}' as ends
       from ai.budgets where workspace_id = $1 and period = $2`,
      [tenant.workspaceId, period],
    );
    expect(windows).toEqual([{ starts: true, ends: true }]);
  });

  test.for([
    ["day", "interval '0'", "0"],
    ["day", "interval '1 microsecond'", "5"],
    ["week", "interval '0'", "0"],
    ["week", "interval '1 microsecond'", "5"],
    ["month", "interval '0'", "0"],
    ["month", "interval '1 microsecond'", "5"],
    ["total", "interval '0'", "0"],
  ] as const)("of period %s whose window ends %s from now has %s spent", async ([period, left, spent], { db }) => {
    const tenant = await createTenant(db);
    await db.query("select ai.set_budget('workspace', $1, $1, 10, period => $2)", [tenant.workspaceId, period]);
    await db.query(
      `update ai.budgets set spent_usd = 5, starts_at = now() - interval '1 hour', ends_at = now() + ${left}
       where workspace_id = $1`,
      [tenant.workspaceId],
    );
    const [budget] = await read(db, tenant);
    expect(budget).toMatchObject({ period, spentUsd: spent });
  });

  test("recomputes its window and what was spent if its time zone changes, and keeps what is reserved", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000", prices });
    const budget = { period: "day", limit_usd: "9" };
    await change(db, tenant, { ...budget, time_zone: "UTC" });
    await settle(db, [outcome(await begin(db, chatCall(tenant)))]);
    await begin(db, chatCall(tenant));
    const today = (zone: string) => `date_trunc('day', now() at time zone '${zone}') at time zone '${zone}'`;
    for (const zone of ["UTC", "Asia/Kathmandu", "Pacific/Kiritimati", "Pacific/Pago_Pago"]) {
      await insertRun(db, tenant, { at: `${today(zone)} - interval '1 microsecond'`, cost: 1 });
    }
    for (const zone of ["Asia/Kathmandu", "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]) {
      await change(db, tenant, { ...budget, read_limit_usd: "9", time_zone: zone });
      const { spent } = await one(db, {
        sql: `select trim_scale(coalesce(sum(cost_usd), 0))::text as spent from ai.runs
              where workspace_id = $1 and status <> 'running' and created_at >= ${today(zone)}`,
        values: [tenant.workspaceId],
      });
      expect(await row(db, tenant, "day"), zone).toMatchObject({ spent, reserved: true, time_zone: zone });
    }
  });

  test("keeps its count if its amount or thresholds change, and while it is removed", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", prices });
    const week = { period: "week", time_zone: "Asia/Kathmandu" };
    await change(db, tenant, { ...week, limit_usd: "9" });
    await db.query("update ai.budgets set spent_usd = 3 where workspace_id = $1", [tenant.workspaceId]);
    await change(db, tenant, { ...week, limit_usd: "8", read_limit_usd: "9", thresholds: [90, 10, 90] });
    expect(await row(db, tenant, "week")).toMatchObject({ limit: "8", spent: "3", thresholds: [10, 90] });
    expect(await change(db, tenant, { period: "week", limit_usd: null, read_limit_usd: "8" })).toEqual({
      outcome: "changed",
    });
    await settle(db, [outcome(await begin(db, chatCall(tenant)))]);
    await change(db, tenant, { ...week, limit_usd: "7" });
    expect(await row(db, tenant, "week")).toMatchObject({ limit: "7", spent: "3.00002", thresholds: [10, 90] });
  });

  test.for<[Change, string]>([
    [{ period: "year" }, "period"],
    [{ period: "concurrent", scope: "label", label, limit_usd: null, max_calls: 1 }, "period"],
    [{ period: "concurrent" }, "limitUsd"],
    [{ limit_usd: "-0.01" }, "limitUsd"],
    [{ max_calls: 1 }, "maxCalls"],
    [{ period: "concurrent", limit_usd: null, max_calls: -1 }, "maxCalls"],
    [{ thresholds: [0] }, "thresholds"],
    [{ thresholds: [101] }, "thresholds"],
    [{ thresholds: [1, 2, 3, 4, 5, 6] }, "thresholds"],
    [{ time_zone: "Europe/Atlantis" }, "timeZone"],
    [{ time_zone: "europe/berlin" }, "timeZone"],
    [{ time_zone: "UTC+3" }, "timeZone"],
    [{ time_zone: "" }, "timeZone"],
  ])("%j is refused because of its %s, and changes nothing", async ([given, param], { db }) => {
    const tenant = await createTenant(db);
    const wanted: Change = { limit_usd: "5", ...given };
    expect(await change(db, tenant, wanted)).toMatchObject({ outcome: "invalid", param, message: expect.any(String) });
    expect(await db.query("select from ai.budgets where workspace_id = $1", [tenant.workspaceId])).toEqual([]);
    const failure = await failureOf(() =>
      db.query(`select ai.set_budget($1, $2, $2, $3, null, coalesce($4, 'month'), $5, $6, $7)`, [
        wanted.scope ?? "workspace",
        tenant.workspaceId,
        wanted.limit_usd,
        wanted.period,
        wanted.time_zone,
        wanted.thresholds,
        wanted.max_calls,
      ]),
    );
    expect(failure.code).toBe("22023");
  });

  test.for([[[]], [[1]], [[100]], [[1, 2, 3, 4, 100]]] as const)(
    "can have the thresholds %j",
    async ([thresholds], { db }) => {
      const tenant = await createTenant(db);
      await change(db, tenant, { limit_usd: "5", thresholds: [...thresholds] });
      expect((await read(db, tenant))[0]).toMatchObject({ thresholds });
    },
  );

  test("is changed only if the member has seen all of its settings, and each change is logged", async ({ db }) => {
    const tenant = await createTenant(db);
    const day = { period: "day", time_zone: "Asia/Kolkata", thresholds: [75], limit_usd: "5" };
    const seen = { read_limit_usd: "5", read_time_zone: "Asia/Kolkata", read_thresholds: [75] };
    expect(await change(db, tenant, day)).toEqual({ outcome: "changed" });
    expect(await change(db, tenant, { ...day, ...seen })).toEqual({ outcome: "unchanged" });
    for (const stale of [
      { read_limit_usd: null },
      { read_time_zone: "UTC" },
      { read_thresholds: [50] },
      { read_reserves_expected: true },
    ]) {
      expect(await change(db, tenant, { ...day, limit_usd: "6", ...seen, ...stale })).toEqual({
        outcome: "changed_meanwhile",
        limitUsd: "5",
        timeZone: "Asia/Kolkata",
        thresholds: [75],
        maxCalls: null,
        reservesExpected: false,
      });
    }
    await change(db, tenant, { ...day, ...seen, thresholds: [], reserves_expected: true });
    const calls = { period: "concurrent", max_calls: 3 };
    expect(await change(db, tenant, calls)).toEqual({ outcome: "changed" });
    expect(await change(db, tenant, { ...calls, max_calls: 4 })).toMatchObject({
      outcome: "changed_meanwhile",
      maxCalls: 3,
    });
    await change(db, tenant, { ...calls, max_calls: null, read_max_calls: 3 });
    await change(db, tenant, { period: "day", read_limit_usd: "5" });
    const lines = await db.query<{ details: object }>(
      "select details from public.workspace_audit_log where workspace_id = $1 and action = 'budget.changed' order by id",
      [tenant.workspaceId],
    );
    const scope = "workspace";
    expect(lines.map(({ details }) => details)).toEqual([
      {
        ...{ scope, before: null, after: "5", period: "day" },
        timeZone: { before: "UTC", after: "Asia/Kolkata" },
        thresholds: { before: [50, 80, 100], after: [75] },
      },
      {
        scope,
        before: "5",
        after: "5",
        period: "day",
        thresholds: { before: [75], after: [] },
        reservesExpected: { before: false, after: true },
      },
      { scope, before: null, after: null, period: "concurrent", maxCalls: { before: null, after: 3 } },
      { scope, before: null, after: null, period: "concurrent", maxCalls: { before: 3, after: null } },
      { scope, before: "5", after: null, period: "day" },
    ]);
    // A budget that is set again reserves maximum costs, like a new one.
    await change(db, tenant, { period: "day", limit_usd: "7" });
    expect(await change(db, tenant, { period: "day", limit_usd: "8", read_limit_usd: "6" })).toMatchObject({
      limitUsd: "7",
      reservesExpected: false,
    });
  });

  test("is listed once for each period of a subject, in stable pages, and never as an envelope", async ({ db }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "1" } });
    for (const period of ["total", "day", "week"]) await change(db, tenant, { period, limit_usd: "5" });
    await change(db, tenant, { period: "concurrent", max_calls: 2 });
    await change(db, tenant, { scope: "label", label, period: "day", limit_usd: "5" });
    await change(db, tenant, { scope: "label", label, period: "total", limit_usd: "5" });
    await openEnvelope(db, tenant);
    const expected = [
      ...["workspace day", "workspace week", "workspace total", "workspace concurrent"],
      ...["key month", "member month", "label day", "label total"],
    ];
    const paged: Budget[] = [];
    for (;;) {
      const page = await read(db, tenant, paged.at(-1)?.position ?? null, 3);
      if (page.length === 0) break;
      paged.push(...page);
    }
    expect(paged.map(({ scope, period }) => `${scope} ${period}`)).toEqual(expected);
    expect(new Set(paged.map(({ position }) => position.join("\n"))).size).toBe(expected.length);
    expect(paged).toMatchObject([{}, {}, {}, { maxCalls: 2, calls: 0, limitUsd: null, usedUp: false }, {}, {}, {}, {}]);
    // Servers of 0.3.0 call without the last argument, and know only monthly budgets.
    const { answer } = await one<{ answer: { budgets: Budget[]; month: string } }>(db, {
      sql: `select ai.read_budgets($1, $2, null, 50, '${scopes}') as answer`,
      values: [tenant.ownerId, tenant.workspaceId],
    });
    expect(answer.budgets.map(({ scope, position }) => [scope, position.length])).toEqual([
      ["workspace", 3],
      ["key", 3],
      ["member", 3],
      ["label", 3],
    ]);
    expect(answer.budgets).toMatchObject([
      { limitUsd: null },
      { limitUsd: "1" },
      { limitUsd: null },
      { limitUsd: null },
    ]);
  });

  test("leaves the monthly budgets of keys, policies and roles alone", async ({ db }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "1" } });
    for (const period of ["day", "total"]) {
      await change(db, tenant, { period, limit_usd: "5" });
      await change(db, tenant, { scope: "key", subject: tenant.keyId, period, limit_usd: "6" });
      await change(db, tenant, { scope: "member", subject: tenant.ownerId, period, limit_usd: "7" });
    }
    await change(db, tenant, { limit_usd: "2" });
    await openEnvelope(db, tenant);
    const found = await one(db, {
      sql: `select
              ai.key_budget(k) = 1 as key, (ai.key_summary(k, null) -> 'budget')::jsonb as summary,
              ai.workspace_policy_summary($1) -> 'budget' as policy
            from ai.keys k where k.workspace_id = $1`,
      values: [tenant.workspaceId],
    });
    expect(found).toEqual({
      key: true,
      summary: { limitUsd: "1", spentUsd: "0" },
      policy: { limitUsd: "2", spentUsd: "0" },
    });
  });

  test.for([
    ["set_budget('workspace', $1, $1, 3)", "3"],
    ["set_budget('label', ai.label_id('x'), $1, 3, 'x')", "3"],
    ["change_budget($2, $1, 'workspace', $1, '4', null)", "4"],
    ["change_budget($2, $1, 'label', null, '4', null, 'x')", "4"],
  ] as const)("ai.%s, as in 0.3.0, sets a monthly budget in UTC", async ([call, limit], { db }) => {
    const tenant = await createTenant(db);
    await db.query(`select ai.${call} from (select $1::uuid, $2::uuid) as given`, [tenant.workspaceId, tenant.ownerId]);
    expect(await row(db, tenant, "month")).toMatchObject({ limit, time_zone: "UTC", thresholds: [50, 80, 100] });
  });
});

describe("the change of a budget's time zone", () => {
  test("counts a run once that is settled at the same time", async () => {
    const { db, close } = openPool(4);
    const [settler, changer] = [await openLine("postgres"), await openLine("postgres")];
    const tenant = await createTenant(db, { credits: "1000", prices });
    try {
      const set = (zone: string) =>
        changer.db.query("select ai.set_budget('workspace', $1, $1, 9, null, 'month', $2)", [tenant.workspaceId, zone]);
      await set("UTC");
      const runs = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
      await settler.client.query("begin");
      await settle(settler.db, [outcome(runs[0] ?? fail())]);
      const changed = set("Asia/Kathmandu");
      await untilItWaits(db, { work: changed, blocker: settler.pid });
      await settler.client.query("commit");
      await changed;
      expect(await row(db, tenant, "month")).toMatchObject({ spent: "0.00002", reserved: true });
      await changer.client.query("begin");
      await set("Pacific/Kiritimati");
      const settled = settle(settler.db, [outcome(runs[1] ?? fail())]);
      await untilItWaits(db, { work: settled, blocker: changer.pid });
      await changer.client.query("commit");
      await settled;
      expect(await row(db, tenant, "month")).toMatchObject({ spent: "0.00004", reserved: false });
    } finally {
      await Promise.all([settler.client.end(), changer.client.end()]);
      await db.query("delete from public.workspaces where id = $1", [tenant.workspaceId]);
      await close();
    }
  });
});

function fail(): never {
  throw new Error("no run");
}

const openEnvelope = (db: Database, { workspaceId, keyId, ownerId }: Tenant) =>
  db.query("select ai.open_envelope($1, $2, '', '{\"usd\": \"5\"}', $3, $2, $3)", [workspaceId, keyId, ownerId]);
