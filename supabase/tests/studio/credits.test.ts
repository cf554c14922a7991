import { describe, expect } from "vitest";
import { createUser, type Database, join, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, runRow, settle } from "../gateway/fixtures.ts";

type Changes = Record<"opening" | "added" | "deducted" | "runs" | "otherRuns" | "closing", string>;
type Read = {
  outcome: string;
  payer: string;
  accounts: { payer: string; balance: string; availableUsd: string | null; changes: Changes }[];
  elsewhere: { credits: string; membersPaid: boolean };
  totals: Record<string, string | number | null>;
  entries: { kind: string; amount: string; payer: string }[];
};

async function read(db: Database, name: "read_credits" | "read_usage", args: [string, string]): Promise<Read> {
  const sql = `select ai.${name}($1, $2, now() - interval '1 day', now() + interval '1 day') as answer`;
  const row = await db.asRole("service_role", () => one<{ answer: Read }>(db, { sql, values: args }));
  return row.answer;
}

/** Deducts credits from a person's own balance without a run. */
async function deduct(db: Database, userId: string, amount: string): Promise<void> {
  await db.query(
    `insert into ai.credit_ledger (account_id, kind, amount, balance_after)
     select id, 'refund', -$2::numeric, balance - $2::numeric from ai.credit_accounts where user_id = $1`,
    [userId, amount],
  );
}

describe("a credit export", () => {
  test("the pages of a credit export have the same entries as an unpaged export, but no totals", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    for (const amount of [1, 2, 3]) {
      await db.query("select ai.grant_credits('workspace', $1, $2, 'test')", [tenant.workspaceId, amount]);
    }
    const page = async (values: unknown[]) => {
      const sql = "select ai.read_credits($1, $2, before_id => $3, page_size => $4, with_totals => $5) as answer";
      type Page = { totals?: object; accounts?: object; entries: { id: string }[] };
      const args = [tenant.ownerId, tenant.workspaceId, ...values];
      return (await db.asRole("service_role", () => one<{ answer: Page }>(db, { sql, values: args }))).answer;
    };
    const whole = await page([null, 50, true]);
    expect(whole).toMatchObject({ totals: {}, accounts: [{}] });
    const first = await page([null, 2, false]);
    expect(Object.keys(first).sort()).toEqual(["entries", "from", "outcome", "to"]);
    const second = await page([first.entries.at(-1)?.id, 50, false]);
    expect([...first.entries, ...second.entries]).toEqual(whole.entries);
  });
});

test.for([
  ["with the plan's markup", "1.25", true, "0.08"],
  ["rounded to 12 decimals", "3", true, "0.033333333333"],
  ["not for a plan without charges", "0", true, null],
  ["not if the workspace hides provider cost", "1.25", false, null],
] as const)("shows the provider cost that a balance pays for, %s", async ([, markup, visible, usd], { db }) => {
  const tenant = await createTenant(db, { credits: "1000" });
  await db.query("update ai.plans set markup = $2 where id = (select plan_id from public.workspaces where id = $1)", [
    tenant.workspaceId,
    markup,
  ]);
  await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, $2)", [
    tenant.workspaceId,
    visible,
  ]);
  const { accounts } = await read(db, "read_credits", [tenant.ownerId, tenant.workspaceId]);
  expect(accounts).toMatchObject([{ balance: "1000", availableUsd: usd }]);
});

describe("credits of a workspace whose members pay", () => {
  test("in a workspace whose members pay, a member's totals include all of the workspace's runs and the member's own deductions, each counted once", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { payer: "member", credits: "1000" });
    const other = await createTenant(db, { payer: "member", credits: "1000" });
    const member = await createUser(db);
    await join(db, { workspaceId: tenant.workspaceId, userId: member.id, role: "member" });
    await db.query("select ai.grant_credits('member', $1, 50, 'test')", [member.id]);
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run)]);
    const { billed_credits: billed } = await runRow(db, run);
    // The owner's balance also pays for runs in another of their workspaces.
    const elsewhere = await begin(db, chatCall(other));
    await db.query(
      `insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
       select id, 'usage', -7, balance - 7, $2, $3 from ai.credit_accounts where user_id = $1`,
      [tenant.ownerId, elsewhere.created_at, elsewhere.run_id],
    );
    await deduct(db, tenant.ownerId, "3");
    await deduct(db, member.id, "5.5");

    const trimmed = String(billed).replace(/\.?0+$/, "");
    const sum = (deduction: string) =>
      one<{ sum: string }>(db, {
        sql: "select trim_scale($1::numeric + $2)::text as sum",
        values: [billed, deduction],
      });
    const owners = await read(db, "read_credits", [tenant.ownerId, tenant.workspaceId]);
    expect(owners.payer).toBe("member");
    expect(owners.totals).toEqual({
      runCredits: trimmed,
      otherDeductions: "3",
      usedCredits: (await sum("3")).sum,
      unmeteredCredits: "0",
      addedCredits: "1000",
    });
    // The 7 credits of the other workspace changed the same balance.
    expect(owners.accounts[0]?.changes).toMatchObject({ opening: "0", added: "1000", deducted: "3", otherRuns: "7" });
    expect(owners.accounts[0]?.changes.runs).toBe(trimmed);
    expect(owners.entries.map(({ kind, amount }) => [kind, amount])).toEqual([
      ["refund", "-3"],
      ["usage", `-${trimmed}`],
      ["grant", "1000"],
    ]);
    const members = await read(db, "read_credits", [member.id, tenant.workspaceId]);
    expect(members.totals).toMatchObject({
      runCredits: trimmed,
      otherDeductions: "5.5",
      usedCredits: (await sum("5.5")).sum,
    });
    expect(members.entries.map(({ kind, payer }) => [kind, payer])).toEqual([
      ["refund", "member"],
      ["grant", "member"],
    ]);
    const usage = await read(db, "read_usage", [member.id, tenant.workspaceId]);
    expect(usage.totals).toMatchObject({
      requests: 1,
      billedCredits: trimmed,
      otherDeductions: "5.5",
      usedCredits: (await sum("5.5")).sum,
    });
  });

  test("the credits of a paying member are private to that member", async ({ db }) => {
    const tenant = await createTenant(db, { payer: "member", credits: "1000" });
    const stranger = await createUser(db);
    for (const name of ["read_credits", "read_usage"] as const) {
      expect(await read(db, name, [stranger.id, tenant.workspaceId])).toEqual({ outcome: "not_allowed" });
    }
  });
});

describe("credits after a change of plan", () => {
  /** Adds a plan with a payer and the tenant's models, and returns a function that moves the workspace to it. */
  async function addPlan(db: Database, tenant: { workspaceId: string; planId: string; model: string }, payer: string) {
    const id = `${tenant.planId}_${payer}`;
    await db.query("insert into ai.plans (id, name, payer, markup) values ($1, 'Other', $2, 1)", [id, payer]);
    await db.query("insert into ai.model_grants (model_id, plan_id) values ($1, $2)", [tenant.model, id]);
    return id;
  }
  const move = (db: Database, workspaceId: string, planId: string) =>
    db.query("update public.workspaces set plan_id = $2 where id = $1", [workspaceId, planId]);
  const runs = async (db: Database, tenant: Parameters<typeof chatCall>[0], count: number) => {
    let sum = 0;
    for (let n = 0; n < count; n++) {
      const run = await begin(db, chatCall(tenant));
      await settle(db, [outcome(run)]);
      sum += Number((await runRow(db, run)).billed_credits);
    }
    return String(sum);
  };
  /** Checks that each balance is explained, and that the runs are the sum of what was paid for them. */
  function expectExplained({ accounts, elsewhere, totals }: Read) {
    for (const { balance, changes } of accounts) {
      const { opening, added, deducted, runs: paid, otherRuns, closing } = changes;
      expect(Number(opening) + Number(added) - Number(deducted) - Number(paid) - Number(otherRuns)).toBeCloseTo(
        Number(closing),
        8,
      );
      expect(closing).toBe(balance);
    }
    const paid = accounts.reduce((sum, { changes }) => sum + Number(changes.runs), 0);
    expect(paid + Number(elsewhere.credits)).toBeCloseTo(Number(totals.runCredits), 8);
  }

  test("what members paid before the workspace pays is one figure, and the workspace's balance is explained without it", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { payer: "member", credits: "1000" });
    const byMembers = await runs(db, tenant, 2);
    await move(db, tenant.workspaceId, await addPlan(db, tenant, "workspace"));
    await db.query("select ai.grant_credits('workspace', $1, 500, 'test')", [tenant.workspaceId]);
    const byWorkspace = await runs(db, tenant, 1);
    const credits = await read(db, "read_credits", [tenant.ownerId, tenant.workspaceId]);
    expectExplained(credits);
    expect(credits.payer).toBe("workspace");
    expect(credits.accounts).toMatchObject([{ payer: "workspace", changes: { added: "500", runs: byWorkspace } }]);
    expect(credits.elsewhere).toEqual({ credits: byMembers, membersPaid: true });

    // Back to the members' plan, both balances are shown and explained.
    await move(db, tenant.workspaceId, tenant.planId);
    await runs(db, tenant, 1);
    const back = await read(db, "read_credits", [tenant.ownerId, tenant.workspaceId]);
    expectExplained(back);
    expect(back.accounts.map(({ payer, changes }) => [payer, changes.added])).toEqual([
      ["workspace", "500"],
      ["member", "1000"],
    ]);
    expect(back.elsewhere).toEqual({ credits: "0", membersPaid: false });
  });

  test("in a workspace that always paid, runs charged outside the range are not said to be paid by members", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const billed = await runs(db, tenant, 1);
    // The range has the run's charge and not the run, as if the run began before the range.
    await db.query("update ai.runs set created_at = created_at - interval '2 days' where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    const credits = await read(db, "read_credits", [tenant.ownerId, tenant.workspaceId]);
    expect(credits.totals.runCredits).toBe("0");
    expect(credits.elsewhere).toEqual({ credits: `-${billed}`, membersPaid: false });
    expectExplained(credits);
  });

  test("finds the last entry before any moment, also between entries of other accounts", async ({ db }) => {
    const [one_, two] = [await createTenant(db, { credits: "1" }), await createTenant(db, { credits: "1" })];
    const [account] = await db.query<{ id: string }>("select id from ai.credit_accounts where workspace_id = $1", [
      one_.workspaceId,
    ]);
    const add = (workspaceId: string, minute: number) =>
      db.query(
        `insert into ai.credit_ledger (account_id, kind, amount, balance_after, created_at)
         select id, 'grant', 1, $2::integer, timestamptz '2030-01-01Z' + make_interval(mins => $2::integer)
         from ai.credit_accounts where workspace_id = $1`,
        [workspaceId, minute],
      );
    for (let minute = 1; minute <= 9; minute++) {
      await add(minute % 3 === 0 ? two.workspaceId : one_.workspaceId, minute);
    }
    const found = await db.query<{ minute: number; balance: string }>(
      `select m.minute, l.balance_after::int::text as balance
       from generate_series(0, 10) m (minute)
       left join ai.credit_ledger l on l.account_id = $1
         and l.id = ai.last_entry_before($1, timestamptz '2030-01-01Z' + make_interval(mins => m.minute))
       order by m.minute`,
      [account?.id],
    );
    expect(found.map(({ balance }) => balance)).toEqual(["1", "1", "1", "2", "2", "4", "5", "5", "7", "8", "8"]);
  });
});

test("a workspace that hides provider cost shows its members only credits", async ({ db }) => {
  const tenant = await createTenant(db, { credits: "1000" });
  const run = await begin(db, chatCall(tenant));
  await settle(db, [outcome(run)]);
  const metered = async () => {
    const { answer } = await one<{ answer: { totals: { meteredUsd: string | null } } }>(db, {
      sql: "select ai.reconcile_costs($1, $2, now() - interval '1 day', now() + interval '1 day') as answer",
      values: [tenant.ownerId, tenant.workspaceId],
    });
    return answer.totals.meteredUsd;
  };
  const { cost_usd: cost } = await runRow(db, run);
  const before = await read(db, "read_usage", [tenant.ownerId, tenant.workspaceId]);
  expect(Number(before.totals.amountUsd)).toBe(Number(cost));
  expect(Number(await metered())).toBe(Number(cost));
  await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
    tenant.workspaceId,
  ]);
  const hidden = await read(db, "read_usage", [tenant.ownerId, tenant.workspaceId]);
  expect(hidden.totals.amountUsd).toBeNull();
  expect(hidden.totals.billedCredits).toBe(before.totals.billedCredits);
  expect(await metered()).toBeNull();
  const { answer } = await one<{ answer: { rows: { provider: string | null; requests: number }[] } }>(db, {
    sql: "select ai.read_usage($1, $2, given_to => now() + interval '1 hour', group_by => '{provider}') as answer",
    values: [tenant.ownerId, tenant.workspaceId],
  });
  expect(answer.rows).toMatchObject([{ provider: null, requests: 1 }]);
});

test("if a workspace hides provider cost, usage and reconciliation don't name its runs' providers", async ({ db }) => {
  const tenant = await createTenant(db, { credits: "1000" });
  await settle(db, [outcome(await begin(db, chatCall(tenant)), { billing_account: "acct-7" })]);
  const member = [tenant.ownerId, tenant.workspaceId];
  const answers = async () => {
    const answer = await one<{ usage: { rows: { provider: string | null; requests: number }[] }; compared: object }>(
      db,
      {
        sql: `select
              ai.read_usage($1, $2, now() - interval '1 day', now() + interval '1 day', '{model,provider}') as usage,
              ai.reconcile_costs($1, $2, now() - interval '1 day', now() + interval '1 day') as compared`,
        values: member,
      },
    );
    return { rows: answer.usage.rows, compared: JSON.stringify(answer.compared) };
  };
  const shown = await answers();
  expect(shown.rows).toMatchObject([{ provider: "demo", requests: 1 }]);
  expect(shown.compared).toMatch(/"demo".*"acct-7"|"acct-7".*"demo"/);
  await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
    tenant.workspaceId,
  ]);
  const hidden = await answers();
  expect(hidden.rows).toMatchObject([{ provider: null, requests: 1 }]);
  expect(hidden.compared).not.toMatch(/demo|acct-7/);
});
