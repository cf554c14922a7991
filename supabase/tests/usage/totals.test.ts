import { randomUUID } from "node:crypto";
import { describe, expect, vi } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { lockRollUps } from "./usage-sums.ts";

// Other tests hold the roll-up's lock while they sum.
vi.setConfig({ testTimeout: 60_000 });

/** Returns the counters of a label that only this test uses. */
const totalsOf = async (db: Database, label: string) => {
  const rows = await db.query<{ figure: string; total: number }>(
    "select figure, total::float8 from ai.totals where label = $1",
    [label],
  );
  return Object.fromEntries(rows.map(({ figure, total }) => [figure, total]));
};

/** Counts sums of runs. */
const countUsage = (db: Database, provider: string, amounts: object) =>
  db.query("select ai.count_usage(array[jsonb_populate_record(null::ai.usage_daily, $1)])", [
    { provider_id: provider, requests: 0, failed: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, ...amounts },
  ]);

describe("the deployment's counters", () => {
  test("count the runs of each stretch once, also when the clock was set back", async ({ db }) => {
    const provider = `p-${randomUUID()}`;
    const tenant = await createTenant(db);
    await lockRollUps(db);
    await db.query(
      `update ai.usage_progress set summed_until = now() - interval '10 minutes', runs_counted_until = now() - interval '10 minutes'`,
    );
    await db.query(
      `insert into ai.runs (
         id, created_at, workspace_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
         model_id, routes, markup, reserved_usd, reserved_credits, input_tokens, cost_usd
       )
       select ai.run_id(m.at), m.at, $1, $2, $2, 'key', 'background', 'chat', 'test', $3,
         jsonb_build_array(jsonb_build_object('position', 1, 'provider', $4::text)), 1.1, 0, 0, 7, 0.5
       from (select now() - interval '5 minutes' as at) m`,
      [tenant.workspaceId, tenant.keyId, tenant.model, provider],
    );
    const sumUntil = async (moment: string) => {
      const step = { sql: `select ai.sum_usage_until(${moment}) >= ${moment} as done` };
      while (!(await one<{ done: boolean }>(db, step)).done);
    };
    await sumUntil("now() - interval '2 minutes'");
    const counted = { runs: 1, input_tokens: 7, cost_usd: 0.5 };
    expect(await totalsOf(db, provider)).toEqual(counted);
    await db.query("update ai.usage_progress set summed_until = date_trunc('day', now() - interval '24 hours', 'UTC')");
    await sumUntil("now() - interval '1 minute'");
    expect(await totalsOf(db, provider)).toEqual(counted);
  });

  test("keep counting after the clock was set back by days", async ({ db }) => {
    await lockRollUps(db);
    await db.query("select ai.roll_up_usage(0)");
    await db.query(
      "update ai.usage_progress set runs_counted_until = now() + interval '3 days', events_counted_until = now() + interval '3 days'",
    );
    await db.query("select ai.roll_up_usage(0)");
    const progress = {
      sql: "select runs_counted_until <= now() as runs, events_counted_until <= now() as events from ai.usage_progress",
    };
    expect(await one(db, progress)).toEqual({ runs: true, events: true });
  });

  test("grow with later changes, and do not fall with corrections", async ({ db }) => {
    const provider = `p-${randomUUID()}`;
    await countUsage(db, provider, { requests: 2, failed: 1, cost_usd: 0.25, output_tokens: 9 });
    await countUsage(db, provider, { failed: 1, cost_usd: -0.125, output_tokens: -9 });
    expect(await totalsOf(db, provider)).toEqual({ runs: 2, failed_runs: 2, cost_usd: 0.25, output_tokens: 9 });
  });

  test("count each failed attempt and each sign-in once, when all of its time are visible", async ({ db }) => {
    const label = `l-${randomUUID()}`;
    const { id } = await createUser(db);
    await lockRollUps(db);
    await db.query("update ai.usage_progress set events_counted_until = now() - interval '5 minutes'");
    for (const age of ["6 minutes", "2 minutes", "30 seconds"]) {
      await db.query(
        `insert into ai.failed_attempts (
           at, run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, failure
         ) values (now() - $2::interval, now(), gen_random_uuid(), 'r', gen_random_uuid(), 'm', $1, 'm', 1, 'timeout')`,
        [label, age],
      );
      await db.query(
        "insert into public.security_events (user_id, kind, method, created_at) values ($1, 'sign_in', $2, now() - $3::interval)",
        [id, label, age],
      );
    }
    await db.query(
      "insert into public.security_events (user_id, kind, method, created_at) values ($1, 'sign_out', $2, now() - interval '2 minutes')",
      [id, label],
    );
    const until = async (moment: string) => {
      await db.query(`select ai.count_events(${moment})`);
      return totalsOf(db, label);
    };
    expect(await until("'-infinity'")).toEqual({});
    expect(await until("now() - interval '1 minute'")).toEqual({ failed_attempts: 1, sign_ins: 1 });
    expect(await until("now() - interval '1 minute'")).toEqual({ failed_attempts: 1, sign_ins: 1 });
    expect(await until("now()")).toEqual({ failed_attempts: 2, sign_ins: 2 });
  });

  test("are written by no role of our servers", async ({ db }) => {
    for (const role of ["anon", "authenticated", "gateway", "service_role"] as const) {
      await expect(
        db.asRole(role, () => db.query("insert into ai.totals values ('runs', 'x', 1)")),
        role,
      ).rejects.toThrow(/permission denied/);
    }
  });
});
