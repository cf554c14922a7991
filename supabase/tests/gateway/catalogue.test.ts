import { describe, expect } from "vitest";
import { one, test } from "../database.ts";
import { begin, chatCall, createTenant } from "./fixtures.ts";

describe("the price book", () => {
  test("refuses two overlapping prices of one tier", async ({ db }) => {
    const { model } = await createTenant(db);
    const add = (valid: string, tier = 0) =>
      db.query(
        `insert into ai.model_prices (model_id, provider_id, min_input_tokens, valid, input_usd_per_million, output_usd_per_million)
         values ($1, 'other', $3, $2, 1, 1)`,
        [model, valid, tier],
      );
    await add("[2026-01-01,2026-02-01)");
    await add("[2026-02-01,)");
    await add("[2026-01-01,)", 200001);
    await expect(db.asRole("service_role", () => add("[2026-01-31,2026-02-01)"))).rejects.toMatchObject({
      code: "23P01",
    });
  });

  test("a stored price can't be changed, but its period of validity can be closed", async ({ db }) => {
    const { model } = await createTenant(db);
    const change = (set: string) =>
      db.asRole("service_role", () => db.query(`update ai.model_prices set ${set} where model_id = $1`, [model]));
    await expect(change("output_usd_per_million = 0")).rejects.toMatchObject({ code: "23001" });
    await expect(change("valid = tstzrange('2020-01-01', null)")).rejects.toMatchObject({ code: "23001" });
    await change("valid = tstzrange(lower(valid), now() + interval '1 hour')");
  });
});

describe("the credit ledger", () => {
  test("the ledger is append-only, even for the table's owner", async ({ db }) => {
    await createTenant(db, { credits: "1" });
    for (const sql of ["update ai.credit_ledger set amount = 0", "delete from ai.credit_ledger"]) {
      await db.query("savepoint s");
      await expect(db.query(sql)).rejects.toMatchObject({ code: "23001" });
      await db.query("rollback to s");
    }
  });
});

describe("keys", () => {
  test("keys can be created only with a current approval", async ({ db }) => {
    const { workspaceId } = await createTenant(db);
    await db.query("delete from ai.key_approvals where workspace_id = $1", [workspaceId]);
    await expect(
      db.query("select ai.create_key($1, null, 'x', 'abcdefghijkl', sha256('x'))", [workspaceId]),
    ).rejects.toMatchObject({ code: "42501" });
  });
});

describe("partitions of ai.runs", () => {
  test("ai.runs has partitions with row-level security for this month and the next three", async ({ db }) => {
    const partitions = await db.query<{ name: string }>(
      `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = 'ai.runs'::regclass and c.relrowsecurity order by 1`,
    );
    const { months } = await one<{ months: string[] }>(db, {
      sql: `select array_agg('runs_' || to_char(m, 'YYYY_MM') order by m) as months
            from generate_series(date_trunc('month', now() at time zone 'UTC'),
              date_trunc('month', now() at time zone 'UTC') + interval '3 months', '1 month') m`,
    });
    expect(partitions.map(({ name }) => name)).toEqual(expect.arrayContaining([...months, "runs_default"]));
  });

  test("new partitions of ai.runs get row-level security, the MFA policy and no grants", async ({ db }) => {
    await db.query("select ai.create_run_partitions(5)");
    const rows = await db.query(
      `select c.relrowsecurity as secured,
         array(select polname::text from pg_policy where polrelid = c.oid) as policies,
         array(select distinct grantee::regrole::text from aclexplode(c.relacl) a
           where grantee::regrole::text not in ('postgres', 'service_role')) as grantees,
         has_table_privilege('service_role', c.oid, 'update') as service_writes
       from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'ai.runs'::regclass`,
    );
    expect(rows.length).toBeGreaterThanOrEqual(7);
    for (const row of rows) {
      expect(row).toEqual({ secured: true, policies: ["account_required_mfa"], grantees: [], service_writes: false });
    }
    expect(await one(db, { sql: "select ai.create_run_partitions(5) as made" })).toEqual({ made: 0 });
  });

  test("a run's id contains the time when the run began", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await begin(db, chatCall(tenant));
    expect(run.run_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const milliseconds = Number.parseInt(run.run_id.replaceAll("-", "").slice(0, 12), 16);
    expect(milliseconds).toBe(new Date(run.created_at).getTime());
  });
});

test.for([
  { multipliers: '{"priority": "2x"}', code: "23514" },
  { multipliers: '{"flex": -1}', code: "23514" },
  { multipliers: "[2]", code: "23514" },
])("a price with the tier multipliers $multipliers is refused", async ({ multipliers, code }, { db }) => {
  const { model } = await createTenant(db);
  const change = "update ai.model_routes set tier_multipliers = $2 where model_id = $1";
  await db.query(change, [model, '{"flex": 0.5, "free": 0}']);
  await expect(db.query(change, [model, multipliers])).rejects.toMatchObject({ code });
});
