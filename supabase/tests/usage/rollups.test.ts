import { Client } from "pg";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { superuserUrl } from "../../../scripts/test/start-stack.ts";
import { type Database, one } from "../database.ts";
import { begin, chatCall, createTenant, type OpenedRun, outcome, settle, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { lockRollUps, reportDifferences, setFence } from "./usage-sums.ts";

/**
 * Sums of today's runs while transactions stay open. Each test holds the roll-up's lock, so that only its own roll-ups
 * move the mark.
 */

// Other tests hold the same lock while they sum.
vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

const pool = openPool(8);
afterAll(pool.close);
const { db } = pool;
const stack = process.env.GATEHOUSE_STACK ?? "";

/** One session, so that it can hold transactions and locks. */
async function openSession(): Promise<{ client: Client; session: Database; end: () => Promise<void> }> {
  const client = new Client({ connectionString: await superuserUrl(stack) });
  client.on("error", () => {});
  await client.connect();
  const session = { ...db, query: async (sql: string, values?: unknown[]) => (await client.query(sql, values)).rows };
  return { client, session: session as Database, end: () => client.end().catch(() => undefined) };
}

type Session = Awaited<ReturnType<typeof openSession>>;
let tenant: Tenant;
let roller: Session;
let held: Session;
/** A session without an open transaction. */
let free: Session;

beforeEach(async () => {
  tenant = await createTenant(db, { credits: "100000" });
  roller = await openSession();
  held = await openSession();
  free = await openSession();
  await lockRollUps(roller.session, "session");
});
afterEach(async () => {
  await held.end();
  await free.end();
  // The sweeper would close the runs that tests leave open, on days that other tests report.
  await roller.session.query("delete from ai.runs where workspace_id = $1", [tenant.workspaceId]);
  await rollUp();
  await roller.end();
});

/** Rolls up until a call completes no day, because a call stops after two seconds. */
async function rollUp(): Promise<void> {
  const call = { sql: "select ai.roll_up_usage(1000000) as days" };
  while ((await one<{ days: number }>(roller.session, call)).days > 0);
}

/** Sums runs until the mark is at a moment. */
async function sumUntil(moment: string): Promise<void> {
  const { target } = await one<{ target: string }>(roller.session, { sql: `select (${moment})::text as target` });
  const step = { sql: "select ai.sum_usage_until($1) >= $1::timestamptz as done", values: [target] };
  while (!(await one<{ done: boolean }>(roller.session, step)).done);
}

/** Sets the mark, with correct sums, to a moment. */
async function moveMark(moment: string): Promise<void> {
  await roller.session.query(
    `update ai.usage_progress set summed_until = date_trunc('day', least(${moment}, now()) - interval '48 hours', 'UTC')`,
  );
  await sumUntil(moment);
}

const mark = async () =>
  (
    await one<{ age: number }>(db, {
      sql: "select extract(epoch from now() - summed_until)::float8 as age from ai.usage_progress",
    })
  ).age;

/** Expects that all reports equal the runs in their own snapshot. */
async function expectExact(): Promise<void> {
  expect(await reportDifferences(db, tenant)).toEqual([]);
}
const countReported = async () =>
  Number(
    (
      await one<{ n: string }>(db, {
        sql: "select coalesce(sum(requests), 0) as n from ai.usage_between($1, now() - interval '30 days', now() + interval '1 day')",
        values: [tenant.workspaceId],
      })
    ).n,
  );

/**
 * Begins a call as if `at` were the current time: the run has that `created_at`, and no change is recorded, because the
 * run was young.
 */
async function beginAt(
  session: Database,
  at: string,
  { label = null }: { label?: string | null } = {},
): Promise<OpenedRun> {
  await session.query("set session_replication_role = replica");
  const run = await one<OpenedRun>(session, {
    sql: `insert into ai.runs (
            id, created_at, workspace_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
            model_id, entity_id, routes, markup, account_id, reserved_usd, reserved_credits
          )
          select
            ai.run_id(m.at), m.at, $1, $2, $2, 'key', 'background', 'chat', 'test', $3, $4,
            '[{"position": 1, "provider": "demo", "model": "m",
               "prices": [{"min_input_tokens": 0, "input": "0.123457", "output": "0.7"}]}]',
            1.1, a.id, 0, 0
          from ai.credit_accounts a, (select ${at} as at) m where a.workspace_id = $1
          returning id as run_id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at,
            routes, reserved_usd::text, ai.credits_per_usd(markup)::text as credits_per_usd`,
    values: [tenant.workspaceId, tenant.keyId, tenant.model, label],
  });
  await session.query("reset session_replication_role");
  return run;
}

describe("sums of today's runs", () => {
  test("a begin held for ten minutes between insert and commit holds the mark, and counts once from its commit on", async () => {
    await moveMark("now() - interval '12 minutes'");
    await beginAt(free.session, "now() - interval '11 minutes'");
    await setFence(roller.session, "now() - interval '10 minutes' - interval '1 second'");
    await held.client.query("begin");
    const late = await beginAt(held.session, "now() - interval '10 minutes'");
    for (let n = 0; n < 3; n += 1) {
      await rollUp();
      await expectExact();
    }
    // The fence of the first roll-up cannot be passed while the begin is held.
    expect(await mark()).toBeGreaterThan(11 * 60);
    expect(await countReported()).toBe(1);
    await held.client.query("commit");
    expect(await countReported()).toBe(2);
    await expectExact();
    await setFence(roller.session, "now()");
    await rollUp();
    expect(await mark()).toBeLessThan(10 * 60);
    await expectExact();
    await settle(db, [outcome(late)]);
    await expectExact();
    await rollUp();
    await expectExact();
  });

  test("a settlement held open while the mark passes its run counts from its commit on", async () => {
    const run = await beginAt(free.session, "now() - interval '5 minutes'");
    await moveMark("now() - interval '6 minutes'");
    await rollUp();
    await setFence(roller.session, "now() - interval '3 minutes'");
    await held.client.query("begin");
    await settle(held.session, [outcome(run, { billing_name: "demo", billing_account: "a-1" })]);
    await rollUp();
    expect(await mark()).toBeLessThan(5 * 60);
    await expectExact();
    await rollUp();
    await held.client.query("commit");
    await expectExact();
    await rollUp();
    await expectExact();
  });

  test("a settlement of a young run that is held open holds the mark", async () => {
    const run = await beginAt(free.session, "now() - interval '5 minutes'");
    await moveMark("now() - interval '6 minutes'");
    await setFence(roller.session, "now() - interval '5 minutes' + interval '20 seconds'");
    await held.client.query("begin");
    // As it was written within 30 seconds of the begin, it recorded no change.
    await held.client.query("set session_replication_role = replica");
    await settle(held.session, [outcome(run)]);
    for (let n = 0; n < 3; n += 1) {
      await rollUp();
      await expectExact();
    }
    expect(await mark()).toBeGreaterThan(5 * 60);
    await held.client.query("commit");
    await expectExact();
    await setFence(roller.session, "now()");
    await rollUp();
    expect(await mark()).toBeLessThan(5 * 60);
    await expectExact();
  });

  const recordedChanges = async () =>
    Number(
      (
        await one<{ n: string }>(held.session, {
          sql: "select count(*) as n from ai.usage_changes where workspace_id = $1",
          values: [tenant.workspaceId],
        })
      ).n,
    );

  test("a change counts as late by the time of the write, not by the start of its transaction", async () => {
    await held.client.query("begin");
    // By the start of the transaction, the run is not older than 30 seconds.
    const run = await beginAt(held.session, "now() - interval '30 seconds'");
    await held.session.query("update ai.runs set output_tokens = 7 where id = $1", [run.run_id]);
    expect(await recordedChanges()).toBe(1);
    await held.client.query("rollback");
  });

  test("a late heartbeat records one difference if its counts changed, and nothing otherwise", async () => {
    const run = await beginAt(free.session, "now() - interval '5 minutes'", { label: "customer-1" });
    await moveMark("now() - interval '3 minutes'");
    const heartbeat = (counts: object) =>
      db.query("select ai.heartbeat_runs($1)", [
        JSON.stringify([{ id: run.run_id, created_at: run.created_at, ...counts }]),
      ]);
    for (const [counts, changes] of [
      [{ input_tokens: 5, output_tokens: 3 }, 1],
      [{ input_tokens: 5, output_tokens: 3, cost_usd: 0.5 }, 1],
      [{ input_tokens: 5, output_tokens: 9 }, 2],
    ] as const) {
      await heartbeat(counts);
      expect(await recordedChanges()).toBe(changes);
      await expectExact();
    }
    await rollUp();
    await expectExact();
    await settle(db, [outcome(run)]);
    await expectExact();
  });

  test("a transaction that inserts its run long after it began records it", async () => {
    await moveMark("now() - interval '90 seconds'");
    await db.query(
      `insert into ai.runs (
         id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, markup,
         reserved_usd, reserved_credits
       ) select ai.run_id(m.at), m.at, $1, 'session', 'interactive', 'chat', 'test', 'm',
         '[{"position": 1, "provider": "demo"}]', 1, 0, 0
       from (select now() - interval '3 minutes' as at) m`,
      [tenant.workspaceId],
    );
    expect(await countReported()).toBe(1);
    await expectExact();
    await rollUp();
    await expectExact();
  });

  test("a roll-up that is killed after each of its steps leaves reports exact, and the next one continues", async () => {
    const run = await beginAt(free.session, "now() - interval '5 minutes'");
    await moveMark("now() - interval '6 minutes'");
    await settle(db, [outcome(run)]);
    const steps = [
      "select ai.advance_usage_fence()",
      "select ai.usage_mark_for_clock()",
      "select ai.sum_usage_until(now() - interval '4 minutes')",
      "select ai.seal_usage_day((now() at time zone 'UTC')::date)",
      "select ai.detail_older_usage_days(3)",
      "select ai.roll_up_usage(100)",
    ];
    await roller.end();
    for (const last of steps.keys()) {
      roller = await openSession();
      await lockRollUps(roller.session, "session");
      await roller.client.query("begin");
      for (const step of steps.slice(0, last + 1)) await roller.client.query(step);
      await expectExact();
      const [backend] = await roller.session.query<{ pid: number }>("select pg_backend_pid() as pid");
      await free.session.query("select pg_terminate_backend($1, 5000)", [backend?.pid]);
      await roller.end();
      await expectExact();
    }
    roller = await openSession();
    await lockRollUps(roller.session, "session");
    await setFence(roller.session, "now() - interval '2 minutes'");
    await rollUp();
    expect(await mark()).toBeLessThan(5 * 60);
    await expectExact();
  });

  test("of two roll-ups, one works and the other returns 0", async () => {
    expect(await one(db, { sql: "select ai.roll_up_usage(1000) as days" })).toEqual({ days: 0 });
    await expectExact();
  });

  test.each([
    ["the clock was set back by an hour", "summed_until = summed_until + interval '1 hour'"],
    ["the clock was set back by three days", "summed_until = summed_until + interval '3 days'"],
  ])("reports stay exact after %s", async (_, ahead) => {
    const run = await beginAt(free.session, "now() - interval '5 minutes'");
    const shift = ahead.match(/interval '[^']+'/)?.[0];
    await moveMark(`now() + ${shift}`);
    await expectExact();
    // Young runs and settlements leave no record, and are before the mark.
    const young = await begin(db, chatCall(tenant));
    await expectExact();
    await settle(db, [outcome(run), outcome(young)]);
    await expectExact();
    await rollUp();
    expect(await mark()).toBeGreaterThan(0);
    await expectExact();
    await rollUp();
    await expectExact();
  });

  test("a roll-up after the clock was set back by less than a minute sums again what changed without a record", async () => {
    const run = await beginAt(free.session, "now() - interval '40 seconds'");
    await moveMark("now() - interval '35 seconds'");
    await free.session.query("set session_replication_role = replica");
    await settle(free.session, [outcome(run)]);
    await free.session.query("reset session_replication_role");
    expect(await reportDifferences(db, tenant)).not.toEqual([]);
    await setFence(roller.session, "now() + interval '40 seconds'");
    await rollUp();
    await expectExact();
  });

  test.each([
    ["in the future", "marked_at = now() + interval '1 hour'"],
    ["in the past", "marked_at = '-infinity'"],
    ["of another cluster", "marked_at = now() - interval '5 minutes', marked_xid = '9000000000000000000'"],
    ["of an earlier cluster", "marked_at = now() - interval '5 minutes', marked_xid = '3'"],
  ])("reports stay exact with a fence %s, and the next roll-ups advance the mark", async (_, fence) => {
    await moveMark("now() - interval '8 minutes'");
    const run = await beginAt(free.session, "now() - interval '5 minutes'");
    await roller.session.query(`update ai.usage_progress set ${fence}`);
    await rollUp();
    await expectExact();
    await settle(db, [outcome(run)]);
    await expectExact();
    await setFence(roller.session, "now() - interval '2 minutes'");
    await rollUp();
    expect(await mark()).toBeLessThan(4 * 60);
    await expectExact();
  });

  test("sums stay exact while steps move the changes of one run into them", async () => {
    await moveMark("now() - interval '2 minutes'");
    const run = await beginAt(free.session, "now() - interval '5 minutes'");
    await moveMark("now() - interval '2 minutes'");
    for (const cost of [1, 2, 3]) await db.query("update ai.runs set cost_usd = $2 where id = $1", [run.run_id, cost]);
    // Stores the changes in another order, as concurrent transactions do that write to different pages.
    await roller.client.query("create temporary table stored as select * from ai.usage_changes where false");
    await roller.session.query(
      `with moved as (delete from ai.usage_changes where workspace_id = $1 returning *)
       insert into stored select * from moved`,
      [tenant.workspaceId],
    );
    await roller.client.query("insert into ai.usage_changes select * from stored order by requests, cost_usd");
    await expectExact();
    const step = { sql: "select ai.add_usage_changes(1) as moved" };
    while ((await one<{ moved: number }>(roller.session, step)).moved > 0) await expectExact();
    await expectExact();
  });

  test("a late change of a day whose sums lack members counts before and after that day is summed again", async () => {
    const run = await beginAt(free.session, "now() - interval '50 hours'");
    await free.session.query("update ai.runs set actor_id = gen_random_uuid() where id = $1", [run.run_id]);
    await moveMark("now() - interval '2 minutes'");
    const { detailed_from: detailedFrom } = await one<{ detailed_from: string }>(db, {
      sql: "select detailed_from::text from ai.usage_progress",
    });
    await roller.session.query("update ai.usage_daily set actor_id = null where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    await roller.session.query(
      "update ai.usage_progress set detailed_from = (now() at time zone 'UTC' - interval '24 hours')::date",
    );
    await settle(db, [outcome(run)]);
    const cost = async () =>
      one(db, {
        sql: `select sum(cost_usd) > 0 as is_charged,
                sum(cost_usd) = (select sum(cost_usd) from ai.runs where workspace_id = $1) as is_exact
              from ai.usage_between($1, now() - interval '30 days', now())`,
        values: [tenant.workspaceId],
      });
    expect(await cost()).toEqual({ is_charged: true, is_exact: true });
    await roller.session.query("select ai.add_usage_changes(20000)");
    expect(await cost()).toEqual({ is_charged: true, is_exact: true });
    await roller.session.query("select ai.detail_older_usage_days(5)");
    await expectExact();
    await roller.session.query("update ai.usage_progress set detailed_from = $1", [detailedFrom]);
  });

  test("details of older days that take too long do not undo the rest of the roll-up", async () => {
    // The noon of the day before yesterday, which the mark has always passed.
    await beginAt(free.session, "date_trunc('day', now(), 'UTC') - interval '36 hours'");
    await moveMark("now() - interval '2 minutes'");
    await roller.session.query("update ai.usage_progress set detailed_from = (now() at time zone 'UTC')::date - 1");
    await held.client.query("begin");
    await held.session.query("select from ai.usage_daily where workspace_id = $1 for update", [tenant.workspaceId]);
    const { pid } = await one<{ pid: number }>(roller.session, { sql: "select pg_backend_pid() as pid" });
    const detailed = one(roller.session, { sql: "select ai.detail_older_usage_days(5) as days" });
    const waiting = {
      sql: "select wait_event_type is not distinct from 'Lock' as is_waiting from pg_stat_activity where pid = $1",
      values: [pid],
    };
    while (!(await one<{ is_waiting: boolean }>(db, waiting)).is_waiting);
    // The same error as from a statement timeout.
    await free.session.query("select pg_cancel_backend($1)", [pid]);
    expect(await detailed).toEqual({ days: 0 });
    await held.client.query("rollback");
    await expectExact();
    await roller.session.query("select ai.detail_older_usage_days(5)");
    await expectExact();
  });

  test("setting the mark to -infinity builds all sums again", async () => {
    const run = await beginAt(free.session, "now() - interval '50 hours'");
    await beginAt(free.session, "now() - interval '5 minutes'");
    await moveMark("now() - interval '2 minutes'");
    await settle(db, [outcome(run)]);
    await rollUp();
    await db.query("update ai.usage_daily set requests = requests + 1000 where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    expect(await reportDifferences(db, tenant)).not.toEqual([]);
    await roller.session.query("update ai.usage_progress set summed_until = '-infinity'");
    await expectExact();
    await setFence(roller.session, "now()");
    await rollUp();
    expect(await mark()).toBeLessThan(4 * 60);
    await expectExact();
  });

  test("runs that are moved across the mark, relabelled or deleted count where they are", async () => {
    const runs = [];
    for (const minutes of [3, 5, 7, 9])
      runs.push(await beginAt(free.session, `now() - interval '${minutes} minutes'`, { label: "a" }));
    await moveMark("now() - interval '6 minutes'");
    for (const change of [
      "update ai.runs set created_at = created_at - interval '4 minutes' where id = $1",
      "update ai.runs set created_at = created_at + interval '4 minutes' where id = $1",
      "update ai.runs set created_at = created_at + interval '2 hours' where id = $1",
      "update ai.runs set created_at = created_at - interval '3 days' where id = $1",
      "update ai.runs set entity_id = 'b', cost_usd = cost_usd + 0.000000000001 where id = $1",
      "update ai.runs set entity_id = null, actor_id = null where id = $1",
      "delete from ai.runs where id = $1",
    ]) {
      for (const { run_id } of runs.slice(0, change.startsWith("delete") ? 2 : 4)) {
        await db.query(change, [run_id]);
        await expectExact();
      }
      await sumUntil("greatest(now() - interval '4 minutes', (select summed_until from ai.usage_progress))");
      await expectExact();
    }
  });

  test("sums across midnight, with a late settlement of yesterday, count each run on its own day", async () => {
    const midnight = "date_trunc('day', now(), 'UTC')";
    const yesterday = await beginAt(free.session, `${midnight} - interval '1 microsecond'`);
    await beginAt(free.session, midnight);
    await moveMark(`${midnight} - interval '1 hour'`);
    await expectExact();
    await sumUntil(midnight);
    await expectExact();
    await settle(db, [outcome(yesterday)]);
    await expectExact();
    await sumUntil(`least(${midnight} + interval '1 minute', now())`);
    await expectExact();
    const days = await db.query<{ requests: string }>(
      "select sum(requests) as requests from ai.usage_between($1, now() - interval '3 days', now()) group by day order by day",
      [tenant.workspaceId],
    );
    expect(days.map(({ requests }) => Number(requests))).toEqual([1, 1]);
  });

  test("200 reports in a row equal the runs that they see, while calls settle and the mark passes them", async () => {
    const runs: OpenedRun[] = [];
    for (let n = 0; n < 60; n += 1) {
      runs.push(
        await beginAt(free.session, `now() - interval '${n * 10 + 5} seconds'`, { label: `customer-${n % 7}` }),
      );
    }
    await moveMark("now() - interval '12 minutes'");
    // Lets the roll-ups of others in between.
    const unlock = () => roller.session.query("select pg_advisory_unlock(hashtextextended('ai.roll_up_usage', 0))");
    await unlock();
    let reports = 0;
    const stopped = () => reports >= 200;
    const settling = (async () => {
      for (const run of runs) await settle(db, [outcome(run, { billing_name: "demo", billing_account: "a-1" })]);
      while (!stopped()) {
        const run = await begin(db, chatCall(tenant));
        await settle(db, [outcome(run)]);
      }
    })();
    const summing = (async () => {
      for (let second = 720; !stopped(); second = Math.max(second - 7, 65)) {
        await lockRollUps(roller.session, "session");
        await sumUntil(`greatest(now() - interval '${second} seconds', (select summed_until from ai.usage_progress))`);
        await rollUp();
        await unlock();
      }
    })();
    const reading = async () => {
      while (!stopped()) {
        reports += 1;
        await expectExact();
      }
    };
    await Promise.all([settling, summing, reading(), reading()]);
  });
});
