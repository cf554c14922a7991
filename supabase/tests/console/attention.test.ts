import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, settle } from "../gateway/fixtures.ts";
import { createMachine } from "../machines/fixtures.ts";
import { ask, issue, needHelp, override } from "../recovery/fixtures.ts";
import { createAdmin } from "./fixtures.ts";

type Kind = { count: number; since: string | null };
type Kinds = Record<string, Kind>;
type Overview = {
  attention: Kinds;
  today: { calls: number; failed: number; refused: number; costUsd: string };
} & Record<string, unknown[]>;

const importers = ["acme"];
const overviewOf = async (db: Database) =>
  (
    await db.asRole("service_role", () =>
      one<{ overview: Overview }>(db, { sql: "select private.read_overview($1) as overview", values: [importers] }),
    )
  ).overview;
const attentionOf = async (db: Database) =>
  (
    await db.asRole("service_role", () =>
      one<{ attention: Kinds }>(db, { sql: "select private.read_attention($1) as attention", values: [importers] }),
    )
  ).attention;

/** Reads all that follows from one snapshot, so that other tests' rows stay the same. Call it first. */
const freeze = (db: Database) => db.query("set transaction isolation level repeatable read");

/** Returns whether a function's rows contain one of a tenant, whose id is in the column. */
const lists = async (db: Database, { from, column, id }: { from: string; column: string; id: string | null }) =>
  (await db.query(`select from private.${from} r where r.${column} = $1`, [id])).length;

/** Adds used-up budgets of members to a workspace. */
const useUpBudgets = (db: Database, { workspaceId, rows = 1 }: { workspaceId: string; rows?: number }) =>
  db.query(
    `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd, spent_usd, refused_at, starts_at, ends_at)
     select 'member', gen_random_uuid(), $1, 5, 5, now(), date_trunc('month', now()), date_trunc('month', now()) + interval '1 month'
     from generate_series(1, $2)`,
    [workspaceId, rows],
  );

describe("used-up budgets", () => {
  const count = (db: Database, id: string) =>
    lists(db, { from: "used_up_budgets(1000000)", column: "workspace_id", id });

  test("a budget needs somebody once it refused a call, and no longer once it is raised or its workspace deleted", async ({
    db,
  }) => {
    const prices = { input: "1", output: "1" };
    const tenant = await createTenant(db, { credits: "100000", prices, key: { monthlyBudgetUsd: "0.0003" } });
    expect(await count(db, tenant.workspaceId)).toBe(0);
    const call = () => begin(db, chatCall(tenant));
    const run = await call();
    const usage = { usage: { input_tokens: 100, output_tokens: 100 } };
    await settle(db, [outcome(run, usage)]);
    await db.query("update ai.budgets set spent_usd = limit_usd where workspace_id = $1", [tenant.workspaceId]);
    expect(await count(db, tenant.workspaceId)).toBe(0);
    expect((await call()).refused).toBeDefined();
    expect(await count(db, tenant.workspaceId)).toBe(1);
    const { budgets } = await overviewOf(db);
    expect(budgets).toContainEqual(
      expect.objectContaining({ workspaceId: tenant.workspaceId, scope: "key", period: "month", limitUsd: "0.0003" }),
    );
    await db.query("savepoint raised");
    await db.query("select ai.set_budget('key', $1, $2, '50')", [tenant.keyId, tenant.workspaceId]);
    expect(await count(db, tenant.workspaceId)).toBe(0);
    await db.query("rollback to savepoint raised");
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [tenant.workspaceId]);
    expect(await count(db, tenant.workspaceId)).toBe(0);
  });

  test.for([
    ["23:59:59", 1],
    ["24:00:00", 0],
  ] as const)("counts refusals of the last 24 hours only (%s ago: %i)", async ([age, expected], { db }) => {
    const { workspaceId } = await createTenant(db);
    await useUpBudgets(db, { workspaceId });
    await db.query(
      "update ai.budgets set starts_at = now() - interval '3 days', refused_at = now() - $2::interval where workspace_id = $1",
      [workspaceId, age],
    );
    expect(await count(db, workspaceId)).toBe(expected);
  });

  test("counts up to 1,001, and lists 10", async ({ db }) => {
    await freeze(db);
    const others = (await attentionOf(db)).budgets?.count ?? 0;
    const { workspaceId } = await createTenant(db);
    await useUpBudgets(db, { workspaceId, rows: 1_000 - others });
    expect((await attentionOf(db)).budgets?.count).toBe(1_000);
    await useUpBudgets(db, { workspaceId });
    expect((await attentionOf(db)).budgets?.count).toBe(1_001);
    await useUpBudgets(db, { workspaceId });
    const { attention, budgets } = await overviewOf(db);
    expect([attention.budgets?.count, budgets?.length]).toEqual([1_001, 10]);
  });
});

describe("used-up credits", () => {
  test("a balance needs somebody from a refused call until a top-up, unless much of it is left", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "20000" });
    const { workspaceId: id } = tenant;
    const count = () => lists(db, { from: "used_up_credits(1000000)", column: "workspace_id", id });
    const set = (changes: string) => db.query(`update ai.credit_accounts set ${changes} where workspace_id = $1`, [id]);
    expect(await count()).toBe(0);
    await set("refused_at = now()");
    expect(await count()).toBe(0);
    await set("balance = 9999.5");
    expect(await count()).toBe(1);
    expect((await overviewOf(db)).credits).toContainEqual(
      expect.objectContaining({ payer: "workspace", ownerId: id, name: "Test", available: "9999.5" }),
    );
    await set("refused_at = now() - interval '7 days'");
    expect(await count()).toBe(0);
    await set("refused_at = now() - interval '6 days 23 hours'");
    expect(await count()).toBe(1);
    await db.query("select ai.grant_credits('workspace', $1, '1', 'test')", [id]);
    expect(await count()).toBe(0);
    await set("refused_at = now()");
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [id]);
    expect(await count()).toBe(0);
  });
});

describe("open requests for approval", () => {
  test("counts a request until it is answered, and lists the oldest 10", async ({ db }) => {
    await freeze(db);
    const before = (await attentionOf(db)).approvals?.count ?? 0;
    const { workspaceId, ownerId } = await createTenant(db);
    await db.query(
      "insert into ai.key_approval_requests (workspace_id, requested_by, requested_at) values ($1, $2, '2001-02-03T00:00:00Z')",
      [workspaceId, ownerId],
    );
    const { attention, approvals } = await overviewOf(db);
    expect(attention.approvals?.count).toBe(before + 1);
    expect(new Date(attention.approvals?.since ?? 0).toISOString()).toBe("2001-02-03T00:00:00.000Z");
    expect(approvals?.[0]).toMatchObject({ id: workspaceId });
    await db.query(
      "update ai.key_approval_requests set state = 'declined', answered_at = now(), decline_reason = 'No' where workspace_id = $1",
      [workspaceId],
    );
    expect((await attentionOf(db)).approvals?.count).toBe(before);
  });
});

describe("months", () => {
  const book = "00000000-0000-0000-0000-000000000000";
  const ended = (db: Database, ago: number) =>
    one<{ month: string; day: string }>(db, {
      // The current month may have fewer than ten days yet.
      sql: `select to_char(m, 'YYYY-MM') as month, to_char(least(m + interval '9 days', today), 'YYYY-MM-DD') as day
            from (select date_trunc('day', now() at time zone 'UTC') as today) t
            cross join lateral (select date_trunc('month', today) - $1 * interval '1 month' as m) x`,
      values: [ago],
    });
  const addCost = (db: Database, at: string) =>
    db.query(
      `insert into ai.external_provider_costs (workspace_id, app_id, provider, account_id, external_run_id, amount_usd, occurred_at, observed_at)
       values ($1, $1, 'acme', null, $2, 1, $3, now())`,
      [book, randomUUID(), at],
    );
  const open = async (db: Database) =>
    (
      await db.query<{ month: string }>("select to_char(d, 'YYYY-MM') as month from private.unreconciled_months() d")
    ).map(({ month }) => month);

  test("an ended month needs somebody from its first cost until it is closed, and again once it is reopened", async ({
    db,
  }) => {
    await freeze(db);
    const { month, day } = await ended(db, 12);
    await db.query("delete from ai.usage_daily where day < date_trunc('month', $1::date) + interval '1 month'", [day]);
    expect(await open(db)).not.toContain(month);
    await addCost(db, `${day}T00:00:00Z`);
    expect(await open(db)).toContain(month);
    await db.query(
      `insert into ai.book_statements (book_id, month, version, closed_by, figures, exceptions, records, sha256)
       values ($1, $2, 1, gen_random_uuid(), '[]', '[]', '', sha256(''))`,
      [book, `${month}-01`],
    );
    expect(await open(db)).not.toContain(month);
    await db.query(
      "update ai.book_statements set reopened_by = gen_random_uuid(), reopened_at = now(), reopen_reason = 'x' where book_id = $1 and month = $2",
      [book, `${month}-01`],
    );
    expect(await open(db)).toContain(month);
    expect((await overviewOf(db)).months?.[0]).toBe(month);
  });

  test("neither the current month nor one before the last twelve needs somebody", async ({ db }) => {
    const [current, old] = [await ended(db, 0), await ended(db, 13)];
    await addCost(db, `${current.day}T00:00:00Z`);
    await addCost(db, `${old.day}T00:00:00Z`);
    const months = await open(db);
    expect(months).not.toContain(current.month);
    expect(months).not.toContain(old.month);
  });
});

test("a provider whose routes fail needs somebody, as its own function says", async ({ db }) => {
  await freeze(db);
  const before = (await attentionOf(db)).providers?.count ?? 0;
  await db.query(
    "insert into ai.provider_outages (provider_id, began_at) values ('overview_test', '2001-02-03T00:00:00Z')",
  );
  const { attention, providers } = await overviewOf(db);
  expect(attention.providers?.count).toBe(before + 1);
  expect(new Date(attention.providers?.since ?? 0).toISOString()).toBe("2001-02-03T00:00:00.000Z");
  expect(providers?.[0]).toMatchObject({ providerId: "overview_test", routes: [] });
});

const withoutRole = "select p.id from public.profiles p where private.console_role(p.id) is null limit 1";
test.for([
  ["works for another month", "enabled = true", false],
  ["expires within 14 days", "expires_at = now() + interval '13 days'", true],
  ["expired a day ago", "expires_at = now() - interval '1 day'", true],
  ["expired eight days ago", "expires_at = now() - interval '8 days'", false],
  ["is disabled", "expires_at = now() + interval '1 day', enabled = false", false],
  ["is revoked", "expires_at = now() + interval '1 day', revoked_at = now()", false],
  ["was created by an admin", "created_by = (select user_id from private.infrastructure_admins limit 1)", false],
  ["was created by somebody without a role", `created_by = (${withoutRole})`, true],
] as const)("whether a service account that %s needs somebody", async ([, change, needs], { db }) => {
  await createAdmin(db);
  await createTenant(db);
  const { id } = await createMachine(db);
  await db.query(`update private.service_accounts set ${change} where id = $1`, [id]);
  expect(await lists(db, { from: "service_accounts_to_review(1000000)", column: "id", id })).toBe(Number(needs));
});

test.for([
  ["works and was added by somebody without a role", `created_by = (${withoutRole})`, true],
  [
    "works and was added by an admin",
    "created_by = (select user_id from private.infrastructure_admins limit 1)",
    false,
  ],
  [
    "has expired and was added by somebody without a role",
    `created_by = (${withoutRole}), expires_at = now() - interval '1 minute'`,
    false,
  ],
] as const)("whether a service account with a credential that %s needs somebody", async ([, change, needs], { db }) => {
  await createAdmin(db);
  await createTenant(db);
  const { id, credentialId } = await createMachine(db);
  await db.query(`update private.service_account_credentials set ${change} where id = $1`, [credentialId]);
  expect(await lists(db, { from: "service_accounts_to_review(1000000)", column: "id", id })).toBe(Number(needs));
});

test("the menu's counts are those of the overview, of the kinds that it has a section for", async ({ db }) => {
  await freeze(db);
  const { attention } = await overviewOf(db);
  const { menu } = await db.asRole("service_role", () =>
    one<{ menu: Kinds }>(db, {
      sql: "select private.read_attention($1, in_menu => true) as menu",
      values: [importers],
    }),
  );
  const { approvals, months, importers: failing, recoveries, deletions, machines, providers } = attention;
  expect(menu).toEqual({ approvals, months, importers: failing, recoveries, deletions, machines, providers });
});

describe("importers, emails and jobs", () => {
  test("a configured importer needs somebody while its attempts fail, or days are missing", async ({ db }) => {
    await freeze(db);
    const failing = async () => (await overviewOf(db)).importers;
    expect(await failing()).toEqual([]);
    const provider = importers[0];
    await db.query(
      "insert into ai.cost_importers (provider, failures, last_error) values ($1, 2, '401'), ('other', 9, 'x')",
      [provider],
    );
    const row = { provider, failures: 2, lastError: "401", lastCompleteDay: null, missedDays: 0 };
    expect(await failing()).toEqual([row]);
    expect((await attentionOf(db)).importers).toEqual({ count: 1, since: null });
    await db.query("update ai.cost_importers set failures = 0, last_error = 'late' where provider = $1", [provider]);
    expect(await failing()).toEqual([]);
    await db.query("update ai.cost_importers set missed = '{[2026-01-02,2026-01-05)}' where provider = $1", [provider]);
    expect(await failing()).toMatchObject([{ missedDays: 3 }]);
  });

  test("an email needs somebody once it was given up, or is due for more than 15 minutes", async ({ db }) => {
    // Keeps out the emails that other tests commit meanwhile.
    await db.query("lock table private.outgoing_mails in share row exclusive mode");
    await db.query("delete from private.outgoing_mails where true");
    const queue = (attempts: number, due: string, rows = 1) =>
      db.query(
        `insert into private.outgoing_mails (recipient, subject, body, attempts, next_attempt_at)
         select 'a@example.com', 's', 'b', $1, now() - $2::interval from generate_series(1, $3)`,
        [attempts, due, rows],
      );
    const mails = async () => {
      const { attention, mails } = await overviewOf(db);
      return [attention.mails?.count, mails];
    };
    await queue(1, "15 minutes");
    await queue(11, "-1 hour");
    expect(await mails()).toEqual([0, { failed: 0, waiting: 0 }]);
    await queue(1, "15 minutes 1 second");
    await queue(12, "-5 hours");
    expect(await mails()).toEqual([2, { failed: 1, waiting: 1 }]);
    await queue(12, "0", 998);
    expect(await mails()).toEqual([1_000, { failed: 999, waiting: 1 }]);
    await queue(12, "0", 3);
    expect(await mails()).toEqual([1_001, { failed: 1_001, waiting: 1 }]);
  });

  test("a job needs somebody once it is later than the alerts allow, or never ran", async ({ db }) => {
    const late = async (sweep: string, sums: string) => {
      await db.query("update ai.sweep_progress set sure_until = '-infinity', seen_until = $1::timestamptz", [sweep]);
      await db.query("update ai.usage_progress set summed_until = $1::timestamptz", [sums]);
      return (await db.query<{ job: string }>("select job from private.late_jobs()")).map(({ job }) => job);
    };
    const ago = async (age: string) =>
      (await one<{ at: string }>(db, { sql: "select (now() - $1::interval)::text as at", values: [age] })).at;
    expect(await late(await ago("5 minutes"), await ago("10 minutes"))).toEqual([]);
    expect(await late(await ago("5 minutes 1 second"), await ago("10 minutes"))).toEqual(["sweep"]);
    expect(await late(await ago("5 minutes"), await ago("10 minutes 1 second"))).toEqual(["sums"]);
    expect(await late("-infinity", "-infinity")).toEqual(["sums", "sweep"]);
    expect((await overviewOf(db)).jobs).toEqual([
      { job: "sums", since: null },
      { job: "sweep", since: null },
    ]);
  });
});

describe("recoveries", () => {
  test("a reset of authenticators needs somebody from its begin until it is finished", async ({ db }) => {
    const { actor, userId, email } = await needHelp(db);
    const found = () => lists(db, { from: "unfinished_recoveries(1000000)", column: "user_id", id: userId });
    const change = (step: string, generation: number) =>
      ask(db, "change_required_mfa", { actor, subject: userId, step, generation, reason: "lost phone" });
    expect(await found()).toBe(0);
    expect((await change("begin_reset", 0)).refused).toBeUndefined();
    // Begun again, it is still one.
    expect((await change("begin_reset", 1)).refused).toBeUndefined();
    expect(await found()).toBe(1);
    const [row] = await db.query("select * from private.unfinished_recoveries(1000000) where user_id = $1", [userId]);
    expect(row).toMatchObject({ kind: "reset", email, ends_at: null });
    expect((await change("finish_reset", 2)).refused).toBeUndefined();
    expect(await found()).toBe(0);
  });

  test.for(["use by a recovery email", "use by a sign-in", "revocation", "expiry"] as const)(
    "an override needs somebody until it is used, revoked or expired (%s)",
    async (end, { db }) => {
      const { actor, email } = await needHelp(db);
      const found = () => lists(db, { from: "unfinished_recoveries(1000000)", column: "email", id: email });
      const overrideId = await override(db, { actor, email });
      expect(await found()).toBe(1);
      if (end === "revocation") await ask(db, "revoke_recovery_override", { actor, overrideId, reason: "wrong" });
      else if (end === "expiry")
        await db.query(
          "update private.recovery_overrides set created_at = now() - interval '2 days', expires_at = now() where id = $1",
          [overrideId],
        );
      else if (end === "use by a sign-in")
        await ask(db, "record_recovery_event", { kind: "login_bypass", outcome: "signed_in", email, overrideId });
      else {
        const { tokenHash } = await issue(db, { actor, overrideId });
        expect(await found()).toBe(1);
        expect(await ask(db, "consume_recovery_credential", { tokenHash })).toMatchObject({ outcome: "consumed" });
      }
      expect(await found()).toBe(0);
    },
  );
});

describe("today", () => {
  test("is the sum of the providers' usage of the day and of all refused calls of the day", async ({ db }) => {
    await freeze(db);
    const tenants = [await createTenant(db, { credits: "1000" }), await createTenant(db, { credits: "1000" })];
    for (const tenant of tenants) {
      await settle(db, [outcome(await begin(db, chatCall(tenant)), { input_tokens: 11, output_tokens: 7 })]);
      await db.query(
        `insert into ai.refused_daily (workspace_id, day, execution_mode, refused)
         values ($1, (now() at time zone 'UTC')::date, 'background', 3), ($1, (now() at time zone 'UTC')::date - 1, 'background', 100)`,
        [tenant.workspaceId],
      );
    }
    const sums = await one<{ calls: number; failed: number; refused: number; cost: string }>(db, {
      sql: `select sum(r.requests)::integer as calls, sum(r.failed)::integer as failed, trim_scale(sum(r."costUsd"))::text as cost,
              (select sum(d.refused)::integer from ai.refused_daily d where d.day = (now() at time zone 'UTC')::date) as refused
            from jsonb_to_recordset(private.list_provider_usage((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date))
              as r (requests numeric, failed numeric, "costUsd" numeric)`,
    });
    const { today } = await overviewOf(db);
    expect(today).toEqual({ calls: sums.calls, failed: sums.failed, refused: sums.refused, costUsd: sums.cost });
    expect(today.refused).toBeGreaterThanOrEqual(6);
  });

  test("is zero without calls", async ({ db }) => {
    const [row] = await db.query("select private.refused_calls_of('1999-01-01')::text as refused");
    expect(row).toEqual({ refused: "0" });
  });
});

test("what needs somebody is only for our server", async ({ db }) => {
  for (const role of ["anon", "authenticated", "gateway"] as const) {
    for (const name of ["read_attention", "read_overview"]) {
      await expect(
        db.asRole(role, () => db.query(`select private.${name}('{}')`)),
        `${name} ${role}`,
      ).rejects.toThrow(/permission denied/);
    }
  }
});
