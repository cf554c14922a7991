import { beforeEach, describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createUser, type Database, join, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";

type Alert = {
  enforced: boolean;
  scope: string;
  subjectId: string;
  subject: string;
  workspaceId: string;
  threshold: number;
  limitUsd: string;
  refusing: boolean;
  spentUsd: string | null;
  month: string;
  period: string;
};

/** Runs the sweep for budget alerts as the server's role, and returns the alerts of one tenant. */
async function sweep(db: Database, { workspaceId }: Tenant): Promise<Alert[]> {
  // Waits until the stack's own server runs no sweep. Otherwise the sweep below would return nothing.
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0))");
  const { alerts } = await db.asRole("service_role", () =>
    one<{ alerts: Alert[] }>(db, { sql: "select ai.sweep_budget_alerts(100000, true) as alerts" }),
  );
  return alerts.filter((alert) => alert.workspaceId === workspaceId);
}

async function post(db: Database, alert: Alert): Promise<number> {
  const { mails } = await db.asRole("service_role", () =>
    one<{ mails: number }>(db, {
      sql: "select ai.queue_budget_alert_mails($1, 'Subject', 'Body') as mails",
      values: [JSON.stringify(alert)],
    }),
  );
  return mails;
}

/**
 * Runs the sweep for budget alerts, and queues emails for the alerts that it found.
 * @returns the thresholds
 */
async function warn(db: Database, tenant: Tenant): Promise<number[]> {
  const alerts = await sweep(db, tenant);
  for (const alert of alerts) await post(db, alert);
  return alerts.map(({ threshold }) => threshold);
}

const setLimit = (db: Database, { workspaceId }: Tenant, limit: string | null) =>
  db.query("select ai.set_budget('workspace', $1, $1, $2)", [workspaceId, limit]);
const spend = (db: Database, { workspaceId }: Tenant, spent: string) =>
  db.query("update ai.budgets set spent_usd = $2 where workspace_id = $1", [workspaceId, spent]);

async function budgetOf(db: Database, limit: string, spent: string): Promise<Tenant> {
  const tenant = await createTenant(db);
  await setLimit(db, tenant, limit);
  await spend(db, tenant, spent);
  return tenant;
}

describe("the warning about a budget", () => {
  test.for([
    ["10", "4.999999999999", []],
    ["10", "5", [50]],
    ["10", "7.999999999999", [50]],
    ["10", "8", [80]],
    ["10", "9.999999999999", [80]],
    ["10", "10", [100]],
    ["10", "10.000000000001", [100]],
    ["0.000000000003", "0.000000000001", []],
    ["0.000000000003", "0.000000000002", [50]],
    ["0", "0", []],
    ["0", "1", []],
  ] as const)("a budget of %s with %s spent warns at %j", async ([limit, spent, thresholds], { db }) => {
    expect(await warn(db, await budgetOf(db, limit, spent))).toEqual(thresholds);
  });

  test("a budget's warning contains the exact amounts, and is sent only once", async ({ db }) => {
    const tenant = await budgetOf(db, "10.10", "8.080000000001");
    const [alert, ...others] = await sweep(db, tenant);
    expect(others).toEqual([]);
    expect(alert).toMatchObject({
      scope: "workspace",
      subjectId: tenant.workspaceId,
      subject: "Test",
      threshold: 80,
      limitUsd: "10.1",
      refusing: false,
      spentUsd: "8.080000000001",
    });
    if (!alert) throw new Error("no alert");
    expect([await post(db, alert), await post(db, alert)]).toEqual([1, 0]);
    expect(await warn(db, tenant)).toEqual([]);
  });

  test("if a sweep fails before it queues a budget's warning, the next sweep queues it", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "5");
    const first = await sweep(db, tenant);
    expect(await sweep(db, tenant)).toEqual(first);
    expect(await warn(db, tenant)).toEqual([50]);
  });

  test("if spend crosses several thresholds of a budget between sweeps, only the highest is emailed", async ({
    db,
  }) => {
    const tenant = await budgetOf(db, "10", "5");
    const [overtaken] = await sweep(db, tenant);
    await spend(db, tenant, "12");
    expect(await warn(db, tenant)).toEqual([100]);
    if (!overtaken) throw new Error("no alert");
    expect(await post(db, overtaken)).toBe(0);
  });

  test("a budget warns once at each threshold, and not again after a correction lowers the spend", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "5");
    const seen: number[][] = [];
    for (const spent of ["5", "7", "8", "7.9", "8", "10", "9", "11"]) {
      await spend(db, tenant, spent);
      seen.push(await warn(db, tenant));
    }
    expect(seen).toEqual([[50], [], [80], [], [], [100], [], []]);
  });

  test("after a budget is raised, it warns again only at thresholds that the spend crosses again", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "10");
    expect(await warn(db, tenant)).toEqual([100]);
    // The spend is half of the new limit, and a warning for a higher threshold was already sent.
    await setLimit(db, tenant, "20");
    expect(await warn(db, tenant)).toEqual([]);
    await spend(db, tenant, "16");
    expect(await warn(db, tenant)).toEqual([80]);
    // The spend crosses the threshold again before a sweep has processed the raised limit.
    await spend(db, tenant, "20");
    expect(await warn(db, tenant)).toEqual([100]);
    await setLimit(db, tenant, "21");
    await spend(db, tenant, "21");
    expect(await warn(db, tenant)).toEqual([100]);
  });

  test("a budget's warning is withdrawn if the budget is raised before the email is queued", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "8");
    const [alert] = await sweep(db, tenant);
    await setLimit(db, tenant, "100");
    expect(await sweep(db, tenant)).toEqual([]);
    if (!alert) throw new Error("no alert");
    expect(await post(db, alert)).toBe(0);
    await spend(db, tenant, "80");
    expect(await warn(db, tenant)).toEqual([80]);
  });

  test("a raised budget still warns at its next threshold if the last alert was recorded with the old limit", async ({
    db,
  }) => {
    const tenant = await budgetOf(db, "20", "10");
    await db.query(
      `insert into ai.budget_alerts (scope, subject_id, workspace_id, month, limit_usd, spent_usd, threshold, posted_at)
       select scope, subject_id, workspace_id, period_start, 10, 10, 100, now() from ai.budgets where workspace_id = $1`,
      [tenant.workspaceId],
    );
    expect(await warn(db, tenant)).toEqual([]);
    await spend(db, tenant, "16");
    expect(await warn(db, tenant)).toEqual([80]);
  });

  test("a budget lowered below its spend warns immediately, and not again when it is lowered further", async ({
    db,
  }) => {
    const tenant = await budgetOf(db, "100", "10");
    expect(await warn(db, tenant)).toEqual([]);
    await setLimit(db, tenant, "10");
    expect(await warn(db, tenant)).toEqual([100]);
    await setLimit(db, tenant, "9");
    expect(await warn(db, tenant)).toEqual([]);
  });

  test("a budget does not repeat its warning when it is removed and set again", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "8");
    expect(await warn(db, tenant)).toEqual([80]);
    await setLimit(db, tenant, null);
    expect(await warn(db, tenant)).toEqual([]);
    await setLimit(db, tenant, "10");
    expect(await warn(db, tenant)).toEqual([]);
  });

  test("a budget warns again each month, but not in a month without spend", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "8");
    expect(await warn(db, tenant)).toEqual([80]);
    await db.query("update ai.budget_alerts set month = month - interval '1 month' where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    await spend(db, tenant, "5");
    expect(await warn(db, tenant)).toEqual([50]);
    const still = await budgetOf(db, "10", "9");
    await db.query(
      "update ai.budgets set starts_at = starts_at - interval '2 months', ends_at = starts_at - interval '1 month' where workspace_id = $1",
      [still.workspaceId],
    );
    expect(await warn(db, still)).toEqual([]);
  });

  test("each budget warns according to the cost of its own runs", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000", key: { monthlyBudgetUsd: "1" } });
    await setLimit(db, tenant, "4");
    await settle(db, [
      outcome(await begin(db, chatCall(tenant, { output_limit: 1_000_000 })), {
        usage: { input_tokens: 0, output_tokens: 833_334 },
      }),
    ]);
    const alerts = await sweep(db, tenant);
    expect(alerts.map(({ scope, threshold, spentUsd }) => [scope, threshold, spentUsd])).toEqual([
      ["key", 50, "0.5000004"],
    ]);
  });

  test("a member budget's warning names the member", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query("update public.profiles set display_name = 'Ada' where id = $1", [tenant.ownerId]);
    await db.query("select ai.set_budget('member', $2, $1, 10)", [tenant.workspaceId, tenant.ownerId]);
    await spend(db, tenant, "8");
    expect(await sweep(db, tenant)).toMatchObject([
      { scope: "member", subjectId: tenant.ownerId, subject: "Ada", threshold: 80, enforced: true },
    ]);
    expect(await warn(db, tenant)).toEqual([80]);
    expect(await warn(db, tenant)).toEqual([]);
  });

  test.for([
    ["carries the label", "update ai.keys set entity_id = 'customer:7'", true],
    ["carried the label but is revoked", "update ai.keys set entity_id = 'customer:7', revoked_at = now()", false],
    ["carried the label but has expired", "update ai.keys set entity_id = 'customer:7', expires_at = now()", false],
    ["carries another label", "update ai.keys set entity_id = 'customer:8'", false],
  ] as const)(
    "with a key that %s, a label budget's warning names the label and says whether calls can be refused",
    async ([, change, enforced], { db }) => {
      const tenant = await createTenant(db, { credits: "100000" });
      await db.query(`${change} where id = $1`, [tenant.keyId]);
      await db.query("select ai.set_budget('label', ai.label_id('customer:7'), $1, 10, 'customer:7')", [
        tenant.workspaceId,
      ]);
      await spend(db, tenant, "4.999999999999");
      expect(await sweep(db, tenant)).toEqual([]);
      await spend(db, tenant, "5");
      expect(await sweep(db, tenant)).toMatchObject([
        { scope: "label", subject: "customer:7", threshold: 50, enforced, refusing: false },
      ]);
    },
  );

  test("a budget's warning is not sent for a deleted workspace", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "8");
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [tenant.workspaceId]);
    expect(await warn(db, tenant)).toEqual([]);
  });

  test("a budget's warning omits the spend if the workspace hides provider cost", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "8");
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    expect(await sweep(db, tenant)).toMatchObject([{ threshold: 80, limitUsd: "10", spentUsd: null }]);
  });
});

/** Opens an envelope of 5 dollars for all calls of the tenant's key, and returns its id. */
async function openEnvelope(db: Database, { workspaceId, keyId, ownerId }: Tenant): Promise<string> {
  const { answer } = await one<{ answer: { id: string } }>(db, {
    sql: `select ai.open_envelope($1, $2, '', '{"usd": "5", "calls": 200}', $3, $2, $3) as answer`,
    values: [workspaceId, keyId, ownerId],
  });
  return answer.id;
}

describe("the warning about a budget of any window", () => {
  const setBudget = (db: Database, { workspaceId }: Tenant, given: { period: string; zone?: string; list?: string }) =>
    db.query("select ai.set_budget('workspace', $1, $1, 10, null, $2, $3, $4)", [
      workspaceId,
      given.period,
      given.zone ?? "UTC",
      given.list ?? null,
    ]);

  test.for([
    ["{}", "10", []],
    ["{100}", "9.999999999999", []],
    ["{100}", "10", [100]],
    ["{1}", "0.099999999999", []],
    ["{1}", "0.1", [1]],
    ["{33,66}", "6.599999999999", [33]],
    ["{33,66}", "6.6", [66]],
    ["{33,66}", "20", [66]],
  ] as const)(
    "with the thresholds %s and %s of 10 dollars spent, warns at %j",
    async ([list, spent, expected], { db }) => {
      const tenant = await createTenant(db);
      await setBudget(db, tenant, { period: "total", list });
      await spend(db, tenant, spent);
      expect(await warn(db, tenant)).toEqual(expected);
      expect(await warn(db, tenant)).toEqual([]);
    },
  );

  test("warns at a threshold that is added above the last one, and not below it", async ({ db }) => {
    const tenant = await budgetOf(db, "10", "8.5");
    expect(await warn(db, tenant)).toEqual([80]);
    await db.query("select ai.set_budget('workspace', $1, $1, 10, thresholds => '{60,90}')", [tenant.workspaceId]);
    expect(await warn(db, tenant)).toEqual([]);
    await db.query("select ai.set_budget('workspace', $1, $1, 10, thresholds => '{60,85}')", [tenant.workspaceId]);
    expect(await warn(db, tenant)).toEqual([85]);
  });

  test.for([["{50,100}", [100]] as const, ["{50}", [50]] as const])(
    "warns of refused calls only with a threshold of 100: %s",
    async ([list, expected], { db }) => {
      const tenant = await createTenant(db);
      await setBudget(db, tenant, { period: "day", list });
      await db.query("update ai.budgets set spent_usd = 8, refused_at = now() where workspace_id = $1", [
        tenant.workspaceId,
      ]);
      expect(await warn(db, tenant)).toEqual(expected);
    },
  );

  test.for(
    (["day", "week", "month"] as const).flatMap((period) =>
      ["UTC", "Asia/Kathmandu", "America/St_Johns"].map((zone) => [period, zone] as const),
    ),
  )("of period %s in %s names its window, and warns again in the next one", async ([period, zone], { db }) => {
    const tenant = await createTenant(db);
    await setBudget(db, tenant, { period, zone });
    await spend(db, tenant, "8");
    const local = `date_trunc('${period}', now() at time zone '${zone}')`;
    const expected = await one<{ month: string; ends: string }>(db, {
      sql: `select ${local}::date::text as month,
              to_jsonb((${local} + interval '1 ${period}') at time zone '${zone}') as ends`,
    });
    const [alert] = await sweep(db, tenant);
    expect(alert).toMatchObject({ period, timeZone: zone, threshold: 80, month: expected.month });
    expect(new Date((alert as Alert & { endsAt: string }).endsAt)).toEqual(new Date(expected.ends));
    expect(await warn(db, tenant)).toEqual([80]);
    await db.query(`update ai.budget_alerts set month = month - interval '1 ${period}' where workspace_id = $1`, [
      tenant.workspaceId,
    ]);
    expect(await warn(db, tenant)).toEqual([80]);
  });

  test.for([
    ["59 minutes 59.999999 seconds", [80]],
    ["1 hour", []],
  ] as const)("warns of a window that ended %s ago at %j", async ([ago, expected], { db }) => {
    const tenant = await createTenant(db);
    await setBudget(db, tenant, { period: "day" });
    await spend(db, tenant, "8");
    await db.query(
      `update ai.budgets set starts_at = now() - interval '1 day', ends_at = now() - interval '${ago}' where workspace_id = $1`,
      [tenant.workspaceId],
    );
    expect(await warn(db, tenant)).toEqual(expected);
  });

  test.for([
    ["starts_at", [100]],
    ["starts_at - interval '1 microsecond'", [80]],
  ] as const)(
    "of a day ignores refusals of the day before: after one at %s, warns at %j",
    async ([at, expected], { db }) => {
      const tenant = await createTenant(db);
      await setBudget(db, tenant, { period: "day", zone: "Asia/Kathmandu" });
      await db.query(`update ai.budgets set spent_usd = 9, refused_at = ${at} where workspace_id = $1`, [
        tenant.workspaceId,
      ]);
      expect(await warn(db, tenant)).toEqual(expected);
    },
  );

  test("is sent for each period of a subject, and servers of 0.3.0 receive only monthly ones", async ({ db }) => {
    const tenant = await createTenant(db);
    for (const period of ["day", "week", "month", "total"]) await setBudget(db, tenant, { period });
    await spend(db, tenant, "8");
    const id = await openEnvelope(db, tenant);
    await db.query("update ai.budgets set refused_at = now() where subject_id = $1", [id]);
    const all = await sweep(db, tenant);
    expect(all.map(({ period, scope }) => `${scope} ${period}`).sort()).toEqual([
      "envelope total",
      ...["day", "month", "total", "week"].map((period) => `workspace ${period}`),
    ]);
    const { alerts } = await one<{ alerts: Alert[] }>(db, { sql: "select ai.sweep_budget_alerts(100000) as alerts" });
    const [{ period: _, ...old }, ...others] = alerts.filter((alert) => alert.workspaceId === tenant.workspaceId) as [
      Alert,
    ];
    expect(others).toEqual([]);
    expect(await post(db, old as Alert)).toBe(1);
    expect((await sweep(db, tenant)).length).toBe(4);
  });
});

describe("the alert about an envelope", () => {
  const refuse = (db: Database, id: string) =>
    db.query("update ai.budgets set refused_at = now() where subject_id = $1", [id]);

  test("is sent once when it refuses a call, and again when it does so after it was raised", async ({ db }) => {
    const tenant = await createTenant(db);
    const id = await openEnvelope(db, tenant);
    await db.query("update ai.budgets set spent_usd = 5 where subject_id = $1", [id]);
    expect(await warn(db, tenant)).toEqual([]);
    await refuse(db, id);
    expect(await sweep(db, tenant)).toMatchObject([
      { scope: "envelope", subjectId: id, period: "total", subject: "test", owner: "test", maxCalls: 200, calls: 0 },
    ]);
    expect([await warn(db, tenant), await warn(db, tenant)]).toEqual([[100], []]);
    await refuse(db, id);
    expect(await warn(db, tenant)).toEqual([]);
    for (const raise of ["limit_usd = 6", "max_calls = 300"]) {
      await db.query(`update ai.budgets set refused_at = null, ${raise} where subject_id = $1`, [id]);
      expect(await warn(db, tenant)).toEqual([]);
      await refuse(db, id);
      expect(await warn(db, tenant)).toEqual([100]);
      // The next refusal may come before a sweep.
      await db.query("update ai.budgets set refused_at = null where subject_id = $1", [id]);
      await db.query("select ai.reset_budget_alert('envelope', $1, $2, 'total')", [id, tenant.workspaceId]);
      await refuse(db, id);
      expect(await warn(db, tenant)).toEqual([100]);
    }
  });

  test.for([
    ["ended by a person", "update ai.envelopes set ended_at = now() where id = $1"],
    ["replaced", "update ai.envelopes set superseded_at = now() where id = $1"],
    ["expired", "update ai.budgets set ends_at = now() where subject_id = $1"],
  ] as const)("is not sent if the envelope was %s", async ([, end], { db }) => {
    const tenant = await createTenant(db);
    const id = await openEnvelope(db, tenant);
    await refuse(db, id);
    await db.query(end, [id]);
    expect(await warn(db, tenant)).toEqual([]);
  });

  const managers = ["admin", "keys", "policy", "workspace owner"];
  test.for([
    ["is a member", "update auth.users set banned_until = now() where id = $1 and $2 <> $1", ["envelope owner"]],
    ["has left", "delete from public.workspace_members where user_id = $1 and workspace_id = $2", managers],
    ["is banned", "update auth.users set banned_until = now() + interval '1 day' where id = $1 and $2 <> $1", managers],
    ["is deleted", "update auth.users set deleted_at = now() where id = $1 and $2 <> $1", managers],
  ] as const)("whose owner %s goes to the right people", async ([, change, expected], { db }) => {
    const tenant = await createTenant(db);
    const [owner, workspaceOwner] = [
      await createUser(db),
      await one<{ email: string }>(db, {
        sql: "select email from auth.users where id = $1",
        values: [tenant.ownerId],
      }),
    ];
    await join(db, { workspaceId: tenant.workspaceId, userId: owner.id, role: "member" });
    const names = new Map([
      [owner.email, "envelope owner"],
      [workspaceOwner.email, "workspace owner"],
    ]);
    for (const role of ["admin", "viewer", "policy", "keys"]) {
      const person = await createUser(db);
      const permission = { policy: "manage_ai_policy", keys: "manage_ai_keys" }[role];
      if (permission) {
        await db.query(
          "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, $2, array[$3]::public.workspace_permission[])",
          [tenant.workspaceId, role, permission],
        );
      }
      await join(db, { workspaceId: tenant.workspaceId, userId: person.id, role });
      names.set(person.email, role);
    }
    await refuse(db, await openEnvelope(db, { ...tenant, ownerId: owner.id }));
    await db.query(change, [owner.id, tenant.workspaceId]);
    expect(await warn(db, tenant)).toEqual([100]);
    const mails = await db.query<{ recipient: string }>(
      "select recipient from private.outgoing_mails where created_at = now() and subject = 'Subject'",
    );
    expect(mails.map(({ recipient }) => names.get(recipient)).sort()).toEqual(expected);
  });
});

describe("the recipients of a budget's warning", () => {
  let people: Record<string, { id: string; email: string }>;
  beforeEach(() => {
    people = {};
  });

  async function mailed(db: Database, tenant: Tenant): Promise<string[]> {
    for (const role of ["admin", "member", "viewer", "policy", "keys", "banned"]) {
      const person = await createUser(db);
      people[role] = person;
      const custom = { policy: "manage_ai_policy", keys: "manage_ai_keys", banned: "manage_ai_policy" }[role];
      if (custom) {
        await db.query(
          "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, $2, array[$3]::public.workspace_permission[])",
          [tenant.workspaceId, role, custom],
        );
      }
      await join(db, { workspaceId: tenant.workspaceId, userId: person.id, role });
    }
    await db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [people.banned?.id]);
    await warn(db, tenant);
    const mails = await db.query<{ recipient: string; due: boolean }>(
      // Selects only emails of this transaction.
      "select recipient, next_attempt_at <= now() as due from private.outgoing_mails where created_at = now() and recipient like '%@example.test'",
    );
    expect(mails.every(({ due }) => due)).toBe(true);
    const roles = new Map(Object.entries(people).map(([role, { email }]) => [email, role]));
    return mails.map(({ recipient }) => roles.get(recipient) ?? "owner").sort();
  }

  test("a budget's warning goes to owners and to members who manage the policy", async ({ db }) => {
    expect(await mailed(db, await budgetOf(db, "10", "8"))).toEqual(["admin", "owner", "policy"]);
  });

  test("a key budget's warning also goes to members who manage keys", async ({ db }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "10" } });
    await spend(db, tenant, "8");
    expect(await mailed(db, tenant)).toEqual(["admin", "keys", "owner", "policy"]);
  });
});

test.for(["ai.sweep_budget_alerts()", "ai.queue_budget_alert_mails('{}', 'S', 'B')"] as const)(
  "%s can't be called by users or the gateway",
  async (call, { db }) => {
    for (const role of ["anon", "authenticated", "gateway"] as const) {
      const failure = await failureOf(() => db.asRole(role, () => db.query(`select ${call}`)));
      expect(failure.code, role).toBe("42501");
    }
  },
);
