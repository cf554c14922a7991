import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";
import { rollUp, setMarkBack } from "../usage/usage-sums.ts";

type Row = {
  id: string | null;
  name: string | null;
  email: string | null;
  plan: string | null;
  isDeleted: boolean;
  requests: number;
  failed: number;
  costUsd: string;
  billedCredits: string;
  balance: string | null;
  available: string | null;
  lastDay: string | null;
  value: string;
};
type Spending = {
  totals: { owners: number; requests: number; failed: number; costUsd: string; billedCredits: string };
  rows: Row[];
};
type Owner = "workspace" | "account";
type Sort = "cost" | "runs" | "failed" | "credits" | "balance" | "id";

/** A month in which only these tests have runs. */
const month = ["2020-05-01", "2020-05-31"] as const;

async function list(
  db: Database,
  query: {
    by?: Owner;
    days?: readonly [string, string];
    sort?: Sort;
    withBalances?: boolean;
    after?: object;
    limit?: number;
  },
): Promise<Spending> {
  const { by = "workspace", days = month, sort = "cost", withBalances = false, after = null, limit = 1_000 } = query;
  const sql = "select private.list_spending($1, $2, $3, $4, $5, $6, $7) as spending";
  const values = [by, ...days, sort, withBalances, after && JSON.stringify(after), limit];
  return db.asRole("service_role", async () => (await one<{ spending: Spending }>(db, { sql, values })).spending);
}

type AddedRun = {
  workspaceId: string;
  actorId?: string | null;
  day?: string;
  costUsd?: string;
  credits?: string;
  failed?: boolean;
};

async function addRun(db: Database, run: AddedRun): Promise<void> {
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, cost_usd, billed_credits, reserved_usd, reserved_credits, account_id, settled_at
     )
     select $1::uuid, $2::timestamp at time zone 'UTC', $3, $4, 'key', 'interactive', 'chat', $1::uuid::text, 'model',
       '[{"position": 1, "provider": "demo"}]', 1, 1, $5, 'provider', $6, $7, 0, 0, gen_random_uuid(), now()`,
    [
      randomUUID(),
      `${run.day ?? "2020-05-09"} 12:00`,
      run.workspaceId,
      run.actorId ?? null,
      run.failed ? "failed" : "succeeded",
      run.costUsd ?? "1",
      run.credits ?? "0",
    ],
  );
}

/** Adds settled runs of the last seven days, with amounts of many digits, of three actors and of none. */
async function addRuns(db: Database, { workspaceId, ownerId }: Tenant): Promise<void> {
  await db.query(
    `insert into ai.runs (
       id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, billing_name, cost_usd, billed_credits, reserved_usd, reserved_credits, account_id,
       settled_at
     )
     select
       ai.run_id(m.moment), m.moment, $1, (array[$2::uuid, $3::uuid, $4::uuid, null])[1 + n % 4], 'key', 'background', 'chat',
       'spending', 'model-' || n % 3, '[{"position": 1, "provider": "demo"}]', 1, 1,
       case when n % 11 = 0 then 'failed' else 'succeeded' end, 'provider', (array['acme', null])[1 + n % 2],
       n * 0.012345678901, n * 1.00000007, 0, 0, gen_random_uuid(), m.moment
     from generate_series(1, 60) n
     cross join lateral (
       select least(now(), date_trunc('day', now(), 'UTC') - n % 7 * interval '24 hours' + n * interval '1 s') as moment
     ) m`,
    [workspaceId, ownerId, randomUUID(), randomUUID()],
  );
}

/** Returns the listed spending next to what runs and ai.platform_usage say, read in one statement and one snapshot. */
async function compare(db: Database, by: Owner) {
  const owner = by === "account" ? "actor_id" : "workspace_id";
  return one<{ spending: Spending; runs: Row[]; platform: string }>(db, {
    sql: `
      select
        private.list_spending($1, d.first, d.last, 'cost', false, null, 1000000) as spending,
        (
          select jsonb_agg(jsonb_build_object(
            'id', o.id, 'requests', o.requests, 'failed', o.failed, 'costUsd', trim_scale(o.cost)::text,
            'billedCredits', trim_scale(o.credits)::text, 'lastDay', o.last
          ))
          from (
            select r.${owner} as id, count(*) as requests, count(*) filter (where r.status = 'failed') as failed,
              sum(r.cost_usd) as cost, sum(r.billed_credits) as credits,
              max((r.created_at at time zone 'UTC')::date) as last
            from ai.runs r
            where (r.created_at at time zone 'UTC')::date between d.first and d.last
            group by 1
          ) o
        ) as runs,
        (select trim_scale(sum(p.cost_usd))::text from ai.platform_usage(d.first, d.last) p) as platform
      from (
        select (now() at time zone 'UTC')::date - 6 as first, (now() at time zone 'UTC')::date as last
      ) d`,
    values: [by],
  });
}

const figures = ({ id, requests, failed, costUsd, billedCredits, lastDay }: Row) =>
  JSON.stringify({ id, requests, failed, costUsd, billedCredits, lastDay });

/** Adds amounts of 12 decimals without rounding. */
function sum(amounts: readonly string[]): bigint {
  return amounts.reduce((total, amount) => {
    const [whole = "0", fraction = ""] = amount.split(".");
    return total + BigInt(whole) * 10n ** 12n + BigInt(fraction.padEnd(12, "0"));
  }, 0n);
}

describe("spending", () => {
  test("spending by workspace and by account is the sum of all runs, and equals the platform's cost to the last digit", async ({
    db,
  }) => {
    const tenants = [await createTenant(db), await createTenant(db)];
    await setMarkBack(db, 7);
    for (const tenant of tenants) await addRuns(db, tenant);
    const ids = tenants.map(({ workspaceId }) => workspaceId);
    const check = async () => {
      for (const by of ["workspace", "account"] as const) {
        const { spending, runs, platform } = await compare(db, by);
        expect(spending.rows.map(figures).toSorted()).toEqual(runs.map(figures).toSorted());
        expect(spending.totals.costUsd).toBe(platform);
        expect(sum(spending.rows.map(({ costUsd }) => costUsd))).toBe(sum([platform]));
        expect(spending.totals.owners).toBe(spending.rows.filter(({ id }) => id !== null).length);
        if (by === "account") expect(spending.rows.filter(({ id }) => id === null)).toHaveLength(1);
        else expect(spending.rows.filter(({ id }) => id !== null && ids.includes(id))).toHaveLength(2);
      }
    };
    // Reads all days from runs, then whole days from sums, then also changes of summed days.
    await check();
    await rollUp(db);
    await check();
    await db.query(
      `update ai.runs set cost_usd = cost_usd + 0.000000000001, status = 'failed'
       where workspace_id = any ($1) and created_at < date_trunc('day', now(), 'UTC')`,
      [ids],
    );
    await check();
    // Sums of days before detailed_from name no account.
    await db.query(
      `with since as (
         update ai.usage_progress set detailed_from = (now() at time zone 'UTC')::date - 3 returning detailed_from
       )
       update ai.usage_daily u set actor_id = null from since where u.day < since.detailed_from and u.workspace_id = any ($1)`,
      [ids],
    );
    await check();
  });

  test("pages of spending contain every row exactly once in each order", async ({ db }) => {
    // Other tests open credit accounts.
    await db.query("set transaction isolation level repeatable read");
    const actors = await Promise.all([createUser(db), createUser(db), createUser(db)]);
    const tenants = [await createTenant(db, { credits: "30" }), await createTenant(db), await createTenant(db)];
    const amounts = ["2", "0.1", "0.1", "0.000000000001"];
    for (const [place, costUsd] of amounts.entries()) {
      const workspaceId = tenants[place]?.workspaceId ?? randomUUID();
      const actorId = actors[place]?.id ?? null;
      await addRun(db, { workspaceId, actorId, costUsd, credits: String(place % 2), failed: place > 1 });
      await addRun(db, { workspaceId, actorId, costUsd: "0" });
    }
    for (const by of ["workspace", "account"] as const) {
      for (const sort of ["cost", "runs", "failed", "credits", "balance", "id"] as const) {
        for (const withBalances of [false, true]) {
          const whole = await list(db, { by, sort, withBalances });
          const paged: Row[] = [];
          for (let after: Row | undefined; ; ) {
            const { rows, totals } = await list(db, { by, sort, withBalances, limit: 1, ...(after ? { after } : {}) });
            expect(totals).toEqual(whole.totals);
            paged.push(...rows);
            after = rows.at(-1);
            if (after === undefined) break;
          }
          expect({ by, sort, rows: paged }).toEqual({ by, sort, rows: whole.rows });
          if (!withBalances) expect(whole.rows).toHaveLength(4);
        }
      }
    }
    const { rows } = await list(db, {});
    expect(rows.map(({ costUsd }) => costUsd)).toEqual(amounts);
    expect((await list(db, { sort: "failed" })).rows.map(({ failed }) => failed)).toEqual([1, 1, 0, 0]);
  });

  test("spending names workspaces with their plan and balance, and keeps those that were deleted", async ({ db }) => {
    const kept = await createTenant(db, { credits: "30" });
    const closed = await createTenant(db);
    const gone = randomUUID();
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [closed.workspaceId]);
    for (const [place, workspaceId] of [kept.workspaceId, closed.workspaceId, gone].entries()) {
      await addRun(db, { workspaceId, costUsd: String(9 - place), day: `2020-05-0${place + 1}` });
    }
    await addRun(db, { workspaceId: kept.workspaceId, day: "2020-04-30", costUsd: "100" });
    await addRun(db, { workspaceId: kept.workspaceId, day: "2020-06-01", costUsd: "100" });
    const { rows, totals } = await list(db, {});
    expect(rows).toMatchObject([
      { id: kept.workspaceId, name: "Test", plan: "Test", isDeleted: false, balance: "30", lastDay: "2020-05-01" },
      { id: closed.workspaceId, name: "Test", isDeleted: true, balance: null, lastDay: "2020-05-02" },
      { id: gone, name: null, plan: null, isDeleted: true, balance: null, lastDay: "2020-05-03" },
    ]);
    expect(rows.map(({ email }) => email)).toEqual([null, null, null]);
    expect(totals).toEqual({ owners: 3, requests: 3, failed: 0, costUsd: "24", billedCredits: "0" });
  });

  test("spending by account names the account with its email and own balance, and no deleted account", async ({
    db,
  }) => {
    const { workspaceId } = await createTenant(db, { credits: "30" });
    const [person, deleted] = [await createUser(db), await createUser(db)];
    await db.query("select ai.grant_credits('member', $1, 12.5, 'test')", [person.id]);
    await db.query("update auth.users set deleted_at = now() where id = $1", [deleted.id]);
    for (const [place, actorId] of [person.id, deleted.id, null].entries()) {
      await addRun(db, { workspaceId, actorId, costUsd: String(9 - place) });
    }
    const { rows } = await list(db, { by: "account" });
    expect(rows).toMatchObject([
      { id: person.id, email: person.email, isDeleted: false, balance: "12.5", available: "12.5", plan: null },
      { id: deleted.id, email: null, name: null, isDeleted: true, balance: null },
      { id: null, email: null, name: null, isDeleted: false, costUsd: "7" },
    ]);
  });

  test("owners without usage are listed only with balances, and only if their balance is not 0", async ({ db }) => {
    // Other tests open credit accounts.
    await db.query("set transaction isolation level repeatable read");
    const idle = await createTenant(db, { credits: "3000000000000" });
    const empty = await createTenant(db, { credits: "1" });
    await db.query("update ai.credit_accounts set balance = 0 where workspace_id = $1", [empty.workspaceId]);
    const ids = (spending: Spending) => spending.rows.map(({ id }) => id);
    expect((await list(db, { sort: "balance" })).rows).toEqual([]);
    const listed = await list(db, { sort: "balance", withBalances: true });
    expect(listed.rows[0]).toMatchObject({ id: idle.workspaceId, requests: 0, costUsd: "0", lastDay: null });
    expect(ids(listed)).not.toContain(empty.workspaceId);
    expect(ids(await list(db, { by: "account", sort: "balance", withBalances: true }))).not.toContain(idle.workspaceId);
    expect(listed.totals).toMatchObject({ owners: 0, costUsd: "0" });
  });
});
