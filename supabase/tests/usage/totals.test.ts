import { randomUUID } from "node:crypto";
import { describe, expect, vi } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { lockRollUps, rollUp, setFence } from "./usage-sums.ts";

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
    await setFence(db, "now()");
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

describe("the counters by hour", () => {
  const hours = async (db: Database) =>
    (await db.query<{ hour: Date; runs: number }>("select hour, runs::float8 from ai.hourly_totals order by hour")).map(
      ({ hour, runs }) => [hour.toISOString(), runs],
    );
  const record = async (db: Database, countedUntil: string) => {
    await db.query("update ai.usage_progress set runs_counted_until = $1", [countedUntil]);
    await db.query("select ai.record_hour()");
    return hours(db);
  };
  const countRuns = (db: Database, runs: number) =>
    db.query("insert into ai.totals values ('runs', $1, $2)", [`p-${randomUUID()}`, runs]);
  const start = async (db: Database) => {
    await lockRollUps(db);
    await db.query("delete from ai.hourly_totals");
    await db.query("delete from ai.totals");
  };

  test("are stored once an hour, at the first roll-up that has counted the runs before it, and kept for 40 days", async ({
    db,
  }) => {
    await start(db);
    await countRuns(db, 3);
    const nine = ["2026-11-30T09:00:00.000Z", 3];
    expect(await record(db, "2026-11-30 09:00:00Z")).toEqual([nine]);
    await countRuns(db, 4);
    expect(await record(db, "2026-11-30 09:59:59.999Z")).toEqual([nine]);
    expect(await record(db, "2026-11-30 10:00:12Z")).toEqual([nine, ["2026-11-30T10:00:00.000Z", 7]]);
    expect(await record(db, "2027-01-09 09:00:00Z")).toHaveLength(3);
    expect((await record(db, "2027-01-09 10:00:00Z"))[0]).toEqual(["2026-11-30T10:00:00.000Z", 7]);
  });

  test("forget hours that are ahead once the clock was set back, and count them again", async ({ db }) => {
    await start(db);
    await countRuns(db, 3);
    await record(db, "2026-11-30 09:00:00Z");
    await record(db, "2027-11-30 12:00:00Z");
    const set = [["2026-11-30T10:00:00.000Z", 3]];
    expect(await record(db, "2026-11-30 10:30:00Z")).toEqual(set);
    await countRuns(db, 1);
    expect(await record(db, "2026-11-30 12:00:00Z")).toEqual([...set, ["2026-11-30T12:00:00.000Z", 4]]);
  });

  test("are stored by the roll-up", async ({ db }) => {
    await start(db);
    await db.query("update ai.usage_progress set summed_until = now() - interval '2 minutes'");
    await rollUp(db, 1);
    expect(await one(db, { sql: "select count(*)::integer as hours from ai.hourly_totals" })).toEqual({ hours: 1 });
  });
});

describe("the usual day", () => {
  /** Stores counters at a time in UTC. The failed runs are a tenth, the refused calls twice and the costs a third. */
  const store = (db: Database, hour: string, runs: number) =>
    db.query(
      "insert into ai.hourly_totals values ($1, $2::numeric, $2::numeric / 10, $2::numeric * 2, $2::numeric / 3)",
      [hour, runs],
    );
  const usual = async (db: Database, at: string) =>
    (await db.asRole("service_role", () => db.query("select private.read_usual_day($1) as day", [at])))[0]?.day;
  const clear = (db: Database) => db.query("delete from ai.hourly_totals");

  test("is the mean of the last four same weekdays up to the time of day, with the current hour in proportion", async ({
    db,
  }) => {
    await clear(db);
    const days = ["2026-11-02", "2026-11-09", "2026-11-16", "2026-11-23"];
    for (const [place, day] of ["2026-10-26", ...days].entries()) {
      await store(db, `${day} 00:00Z`, 1_000 * place);
      await store(db, `${day} 09:00Z`, 1_000 * place + 100 * place);
      await store(db, `${day} 10:00Z`, 1_000 * place + 100 * place + 40);
    }
    // A Tuesday, which does not count.
    await store(db, "2026-11-24 00:00Z", 5_000);
    await store(db, "2026-11-24 09:00Z", 9_000);
    await store(db, "2026-11-24 10:00Z", 9_900);
    const mean = { runs: 260, failedRuns: 26, refusedCalls: 520, costUsd: "86.666666666667" };
    expect(await usual(db, "2026-11-30 09:15Z")).toEqual(mean);
    expect(await usual(db, "2026-11-30 10:15+01:00")).toEqual(mean);
    expect(await usual(db, "2026-11-30 09:00Z")).toMatchObject({ runs: 250 });
    expect(await usual(db, "2026-11-30 11:00Z")).toBeNull();
    expect(await usual(db, "2026-12-01 09:00Z")).toMatchObject({ runs: 4_000 });
  });

  test("skips days without an hour, and is null without any day", async ({ db }) => {
    await clear(db);
    expect(await usual(db, "2026-11-30 00:30Z")).toBeNull();
    await store(db, "2026-11-23 00:00Z", 7);
    await store(db, "2026-11-16 00:00Z", 7);
    expect(await usual(db, "2026-11-30 00:30Z")).toBeNull();
    await store(db, "2026-11-23 01:00Z", 9);
    expect(await usual(db, "2026-11-30 00:00Z")).toMatchObject({ runs: 0, costUsd: "0" });
    expect(await usual(db, "2026-11-30 00:30Z")).toMatchObject({ runs: 1 });
  });

  test("ends its last hour at midnight", async ({ db }) => {
    await clear(db);
    await store(db, "2026-11-23 00:00Z", 10);
    await store(db, "2026-11-23 23:00Z", 40);
    await store(db, "2026-11-24 00:00Z", 50);
    expect(await usual(db, "2026-11-30 23:59:59Z")).toMatchObject({ runs: 40 });
  });
});
