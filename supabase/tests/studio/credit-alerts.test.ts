import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { createUser, type Database, join, one, test } from "../database.ts";
import {
  begin,
  chatCall,
  createTenant,
  outcome,
  settle,
  type Tenant,
  type TenantOptions,
} from "../gateway/fixtures.ts";

type Alert = {
  accountId: string;
  payer: string;
  workspaceId: string;
  workspace: string;
  level: string;
  crossedAt: string;
  balance: string;
  available: string;
  threshold: string;
};

/** Creates a workspace with the given balance, on a plan that warns below 100 credits. */
async function tenantWith(db: Database, credits: string, options: TenantOptions = {}): Promise<Tenant> {
  const tenant = await createTenant(db, { ...options, credits });
  await setThreshold(db, tenant, "100");
  return tenant;
}

const setThreshold = (db: Database, { planId }: Tenant, credits: string | null) =>
  db.query("update ai.plans set low_credits = $2 where id = $1", [planId, credits]);
const change = (db: Database, { workspaceId }: Tenant, amount: string) =>
  db.query("select ai.grant_credits('workspace', $1, $2, 'test')", [workspaceId, amount]);
const setBalance = (db: Database, { workspaceId, ownerId }: Tenant, balance: string) =>
  db.query("update ai.credit_accounts set balance = $3 where workspace_id = $1 or user_id = $2", [
    workspaceId,
    ownerId,
    balance,
  ]);

async function sweep(db: Database, { workspaceId }: Tenant): Promise<Alert[]> {
  // Waits until the stack's own server has finished its sweep, because concurrent sweeps find nothing.
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.sweep_credit_alerts', 0))");
  const { alerts } = await db.asRole("service_role", () =>
    one<{ alerts: Alert[] }>(db, { sql: "select ai.sweep_credit_alerts(100000) as alerts" }),
  );
  return alerts.filter((alert) => alert.workspaceId === workspaceId);
}

async function post(db: Database, alert: Alert | undefined): Promise<number> {
  const { mails } = await db.asRole("service_role", () =>
    one<{ mails: number }>(db, {
      sql: "select ai.queue_credit_alert_mails($1, 'Subject', 'Body') as mails",
      values: [JSON.stringify(alert)],
    }),
  );
  return mails;
}

/**
 * Runs the sweep for credit alerts, and queues emails for the alerts that it found.
 * @returns the levels
 */
async function warn(db: Database, tenant: Tenant): Promise<string[]> {
  const alerts = await sweep(db, tenant);
  for (const alert of alerts) await post(db, alert);
  return alerts.map(({ level }) => level);
}

/** Makes a call that is refused for lack of credits. */
async function refuse(db: Database, tenant: Tenant): Promise<void> {
  const answer = await begin(db, chatCall(tenant, { output_limit: 32768 }));
  expect(answer).toMatchObject({ refused: "insufficient_credits" });
}

const expensive = { prices: { input: "1000", output: "1000" } };

describe("warnings about a balance", () => {
  test.for([
    ["100", []],
    ["99.99999999", ["low"]],
    ["0.00000001", ["low"]],
    ["0", ["empty"]],
    ["-0.00000001", ["empty"]],
  ] as const)(
    "a balance of %s credits on a plan that warns below 100 gets the warning %j",
    async ([credits, levels], { db }) => {
      const tenant = await tenantWith(db, "1000");
      await setBalance(db, tenant, credits);
      expect(await warn(db, tenant)).toEqual(levels);
      expect(await warn(db, tenant)).toEqual([]);
    },
  );

  test.for([
    [null, "1000", "100", []],
    [null, "1000", "99.99999999", ["low"]],
    [null, "0", "10000", []],
    [null, "0", "9999.99999999", ["low"]],
    ["0", "1000", "0.00000001", []],
    ["0", "1000", "0", ["empty"]],
  ] as const)(
    "with a threshold of %s, initial credits of %s and a balance of %s, the warning is %j",
    async ([threshold, initialCredits, credits, levels], { db }) => {
      const tenant = await createTenant(db, { initialCredits, credits: "1" });
      await setThreshold(db, tenant, threshold);
      await setBalance(db, tenant, credits);
      expect(await warn(db, tenant)).toEqual(levels);
    },
  );

  test("a balance that becomes low and then empty gets two warnings, or one if the sweep ran late", async ({ db }) => {
    const tenant = await tenantWith(db, "50");
    expect(await warn(db, tenant)).toEqual(["low"]);
    await setBalance(db, tenant, "0");
    expect(await warn(db, tenant)).toEqual(["empty"]);
    const late = await tenantWith(db, "50");
    await sweep(db, late);
    await setBalance(db, late, "0");
    expect(await warn(db, late)).toEqual(["empty"]);
  });

  test("a top-up rearms the empty warning if the balance is no longer empty, and the low warning if it is no longer low", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "100");
    await setBalance(db, tenant, "0");
    expect(await warn(db, tenant)).toEqual(["empty"]);
    await change(db, tenant, "99.99999999");
    expect(await warn(db, tenant)).toEqual([]);
    await setBalance(db, tenant, "0");
    expect(await warn(db, tenant)).toEqual(["empty"]);
    await change(db, tenant, "100");
    await setBalance(db, tenant, "99");
    expect(await warn(db, tenant)).toEqual(["low"]);
  });

  test("a correction that raises the balance does not rearm the low-balance warning", async ({ db }) => {
    const tenant = await tenantWith(db, "99");
    expect(await warn(db, tenant)).toEqual(["low"]);
    await setBalance(db, tenant, "101");
    expect(await warn(db, tenant)).toEqual([]);
    await setBalance(db, tenant, "99");
    expect(await warn(db, tenant)).toEqual([]);
  });

  test("lowering the threshold below the balance sends no warning, and raising it above the balance warns immediately", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "99");
    expect(await warn(db, tenant)).toEqual(["low"]);
    await setThreshold(db, tenant, "50");
    expect(await warn(db, tenant)).toEqual([]);
    await setThreshold(db, tenant, "200");
    expect(await warn(db, tenant)).toEqual(["low"]);
  });

  test("does not warn about a workspace's balance if the plan charges members or the workspace is deleted", async ({
    db,
  }) => {
    const [moved, deleted] = [await tenantWith(db, "1"), await tenantWith(db, "1")];
    await db.query("update ai.plans set payer = 'member' where id = $1", [moved.planId]);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [deleted.workspaceId]);
    expect([...(await warn(db, moved)), ...(await warn(db, deleted))]).toEqual([]);
    // Simulates a change of payer after a sweep that could not queue its emails.
    const late = await tenantWith(db, "1");
    expect(await sweep(db, late)).toHaveLength(1);
    await db.query("update ai.plans set payer = 'member' where id = $1", [late.planId]);
    expect(await sweep(db, late)).toEqual([]);
  });
});

describe("a refusal for lack of credits", () => {
  test("a call refused for lack of credits triggers an out-of-credits warning if the available credits are below the threshold", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "99.5", expensive);
    await refuse(db, tenant);
    expect(await warn(db, tenant)).toEqual(["empty"]);
    await setBalance(db, tenant, "0");
    expect(await warn(db, tenant)).toEqual([]);
  });

  test("a call refused for lack of credits triggers no warning if the available credits are not below the threshold", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "100", expensive);
    await refuse(db, tenant);
    expect(await warn(db, tenant)).toEqual([]);
  });

  test("a recorded refusal for lack of credits is cleared by a top-up or after an hour", async ({ db }) => {
    const tenant = await tenantWith(db, "50", expensive);
    await refuse(db, tenant);
    await change(db, tenant, "1");
    expect(await warn(db, tenant)).toEqual(["low"]);
    for (const [age, levels] of [
      ["1 hour", ["low"]],
      ["59 minutes 59 seconds", ["empty"]],
    ] as const) {
      const old = await tenantWith(db, "50", expensive);
      await refuse(db, old);
      const sql = `update ai.credit_accounts set refused_at = now() - interval '${age}' where workspace_id = $1`;
      await db.query(sql, [old.workspaceId]);
      expect(await warn(db, old)).toEqual(levels);
    }
  });

  test("a refusal for lack of credits is recorded at most once a minute, and admitted calls record nothing", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "50", expensive);
    const refusedAt = async () =>
      (
        await one<{ at: Date | null }>(db, {
          sql: "select refused_at as at from ai.credit_accounts where workspace_id = $1",
          values: [tenant.workspaceId],
        })
      ).at;
    await setBalance(db, tenant, "1000000000");
    await settle(db, [outcome(await begin(db, chatCall(tenant)))]);
    expect(await refusedAt()).toBeNull();
    await setBalance(db, tenant, "1");
    for (const [age, kept] of [
      ["59 seconds", true],
      ["61 seconds", false],
    ] as const) {
      const sql = `update ai.credit_accounts set refused_at = now() - interval '${age}' where workspace_id = $1`;
      await db.query(sql, [tenant.workspaceId]);
      const before = await refusedAt();
      await refuse(db, tenant);
      expect((await refusedAt())?.getTime() === before?.getTime()).toBe(kept);
    }
  });
});

describe("emails about credits", () => {
  const recipients = async (db: Database) =>
    (await db.query<{ recipient: string }>("select recipient from private.outgoing_mails where subject = 'Subject'"))
      .map(({ recipient }) => recipient)
      .sort();

  test("emails about credits go to a workspace's owners and to members who manage its AI policy, one email each", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "1");
    const [manager, member, banned] = [await createUser(db), await createUser(db), await createUser(db)];
    await join(db, { workspaceId: tenant.workspaceId, userId: manager.id, role: "admin" });
    await join(db, { workspaceId: tenant.workspaceId, userId: member.id, role: "member" });
    await join(db, { workspaceId: tenant.workspaceId, userId: banned.id, role: "admin" });
    await db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [banned.id]);
    const [alert] = await sweep(db, tenant);
    expect(alert).toMatchObject({
      payer: "workspace",
      workspace: "Test",
      level: "low",
      balance: "1",
      available: "1",
      threshold: "100",
    });
    expect([await post(db, alert), await post(db, alert)]).toEqual([2, 0]);
    const { email } = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [tenant.ownerId],
    });
    expect(await recipients(db)).toEqual([email, manager.email].sort());
  });

  test("if members pay, the email about credits goes to the paying member and is about the personal workspace, not the shared one", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "1", { payer: "member" });
    const alerts = await sweep(db, tenant);
    expect(alerts).toEqual([]);
    const { personal } = await one<{ personal: string }>(db, {
      sql: "select id as personal from public.workspaces where personal_user_id = $1",
      values: [tenant.ownerId],
    });
    const [alert] = await sweep(db, { ...tenant, workspaceId: personal });
    expect(alert).toMatchObject({ payer: "member", level: "low", balance: "1" });
    expect(await post(db, alert)).toBe(1);
    const { email } = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [tenant.ownerId],
    });
    expect(await recipients(db)).toEqual([email]);
  });

  test("queues no email about credits if the balance was topped up after the sweep", async ({ db }) => {
    const tenant = await tenantWith(db, "1");
    const [alert] = await sweep(db, tenant);
    await change(db, tenant, "1000");
    expect(await post(db, alert)).toBe(0);
    expect(await sweep(db, tenant)).toEqual([]);
    await setBalance(db, tenant, "1");
    expect(await warn(db, tenant)).toEqual(["low"]);
  });

  test.for(["ai.sweep_credit_alerts()", "ai.queue_credit_alert_mails('{}', 'S', 'B')"] as const)(
    "only the server sends emails about credits: other roles can't call %s",
    async (call, { db }) => {
      for (const role of ["anon", "authenticated", "gateway"] as const) {
        const failure = await failureOf(() => db.asRole(role, () => db.query(`select ${call}`)));
        expect(failure).toMatchObject({ code: "42501" });
      }
    },
  );
});

describe("the notice about credits in the studio", () => {
  const notice = async (db: Database, userId: string, workspaceId: string) =>
    (
      await db.asRole("service_role", () =>
        one<{ notice: { level: string; available: string } | null }>(db, {
          sql: "select ai.read_credit_notice($1, $2) as notice",
          values: [userId, workspaceId],
        }),
      )
    ).notice;

  test.for([
    ["100", null],
    ["99.99999999", { level: "low", available: "99.99999999" }],
    ["0", { level: "empty", available: "0" }],
    ["-3", { level: "empty", available: "0" }],
  ] as const)("the studio's notice for a workspace with %s credits is %j", async ([credits, expected], { db }) => {
    const tenant = await tenantWith(db, "1000");
    await setBalance(db, tenant, credits);
    expect(await notice(db, tenant.ownerId, tenant.workspaceId)).toEqual(expected);
  });

  test("the studio's notice shows a paying member their own balance", async ({ db }) => {
    const tenant = await tenantWith(db, "1", { payer: "member" });
    const rich = await createUser(db);
    await join(db, { workspaceId: tenant.workspaceId, userId: rich.id, role: "member" });
    await db.query("select ai.grant_credits('member', $1, 1000000, 'test')", [rich.id]);
    expect(await notice(db, tenant.ownerId, tenant.workspaceId)).toEqual({ level: "low", available: "1" });
    expect(await notice(db, rich.id, tenant.workspaceId)).toBeNull();
  });

  test("before the first call has opened a credit account, the studio's notice is about the initial credits", async ({
    db,
  }) => {
    const [none, some] = [await createTenant(db), await createTenant(db, { initialCredits: "50" })];
    expect(await notice(db, none.ownerId, none.workspaceId)).toEqual({ level: "empty", available: "0" });
    expect(await notice(db, some.ownerId, some.workspaceId)).toBeNull();
  });

  test("the studio's notice is not shown to non-members", async ({ db }) => {
    const tenant = await tenantWith(db, "0");
    expect(await notice(db, (await createUser(db)).id, tenant.workspaceId)).toBeNull();
  });
});
