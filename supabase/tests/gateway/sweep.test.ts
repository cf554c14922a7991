import { describe, expect } from "vitest";
import { maxCallSeconds } from "../../functions/_shared/longest-call.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import {
  abandon,
  begin,
  books,
  chatCall,
  createTenant,
  forgetReservation,
  type OpenedRun,
  outcome,
  runRow,
  settle,
} from "./fixtures.ts";

const lock = "hashtextextended('ai.sweep_runs', 0)";

/**
 * Waits for a sweep by the stack's server or another test to end, and then sweeps. A sweep that starts during another
 * sweep closes nothing.
 */
async function sweep(db: Database): Promise<void> {
  await db.query(`select pg_advisory_xact_lock(${lock})`);
  await db.query("select ai.sweep_runs()");
}

describe("the sweeper", () => {
  test("keeps a run open after 45 seconds without a heartbeat, and closes it after more than that", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const [young, old] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    await abandon(db, young, 45);
    await abandon(db, old, 46);
    await sweep(db);
    expect(await runRow(db, young)).toMatchObject({ status: "running" });
    expect(await runRow(db, old)).toMatchObject({
      status: "failed",
      usage_source: "unavailable",
      billed_credits: "0.00000000",
      unmetered_credits: old.reserved_credits,
      swept: true,
    });
    expect(await books(db, tenant)).toMatchObject({
      balance: "100.00000000",
      reserved: young.reserved_credits,
      open: 1,
    });
  });

  test("keeps the longest call open while its heartbeats arrive, with its reservation", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await begin(db, chatCall(tenant));
    const [begun] = await db.query<{ created_at: string }>(
      "update ai.runs set created_at = created_at - $2 * interval '1 second' where id = $1 returning created_at::text",
      [run.run_id, maxCallSeconds],
    );
    const old = { ...run, created_at: begun?.created_at ?? "" };
    for (const [seconds, status] of [
      [45, "running"],
      [46, "failed"],
    ] as const) {
      await abandon(db, old, seconds);
      await sweep(db);
      expect(await runRow(db, old)).toMatchObject({ status });
      const reserved = status === "running" ? run.reserved_credits : "0.00000000";
      expect(await books(db, tenant)).toMatchObject({ reserved });
    }
  });

  test("keeps a run open if its heartbeat arrives just before the sweeper would close it", async ({ db }) => {
    const [sweeping, living] = [openPool(1), openPool(1)];
    try {
      const run = await begin(living.db, chatCall(await createTenant(living.db, { credits: "100" })));
      const { pid } = await one<{ pid: number }>(sweeping.db, { sql: "select pg_backend_pid() as pid" });
      await sweeping.db.query("begin");
      // Takes the sweep's lock before the run looks abandoned, so that no other sweep closes the run.
      await sweeping.db.query(`select pg_advisory_xact_lock(${lock})`);
      await abandon(living.db, run, 60);
      await living.db.query("begin");
      const counts = { created_at: run.created_at, id: run.run_id, input_tokens: 1, output_tokens: 1 };
      await living.db.query("select ai.heartbeat_runs($1)", [JSON.stringify([counts])]);
      const swept = sweeping.db.query("select ai.sweep_runs()");
      const waiting = "select from pg_locks where pid = $1 and not granted";
      await expect.poll(() => db.query(waiting, [pid]), { timeout: 10_000 }).toHaveLength(1);
      await living.db.query("commit");
      await swept;
      await sweeping.db.query("commit");
      expect(await runRow(living.db, run)).toMatchObject({ status: "running" });
    } finally {
      await Promise.all([sweeping.close(), living.close()]);
    }
  });

  test("stores the other heartbeats of a batch if the cost in one of them is too large to store", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const runs = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    for (const run of runs) await abandon(db, run, 60);
    const touched = runs.map((run, at) => ({
      ...{ created_at: run.created_at, id: run.run_id, route: 1, input_tokens: 1, output_tokens: 1 },
      ...(at === 0 ? { cost_usd: "1e30" } : {}),
    }));
    await db.query("select ai.heartbeat_runs($1)", [JSON.stringify(touched)]);
    await sweep(db);
    for (const run of runs) expect(await runRow(db, run)).toMatchObject({ status: "running" });
    for (const run of runs) await abandon(db, run, 60);
    await sweep(db);
    expect(await runRow(db, runs[0] as OpenedRun)).toMatchObject({ billed_credits: runs[0]?.reserved_credits });
    expect(await runRow(db, runs[1] as OpenedRun)).toMatchObject({ billed_credits: "0.00000000" });
  });

  test("charges a swept run for the usage in its last heartbeat, but at most for its reservation", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const [some, many] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    const touch = (run: OpenedRun, cost_usd: string, more: object) =>
      db.query("select ai.heartbeat_runs($1)", [
        JSON.stringify([{ created_at: run.created_at, id: run.run_id, route: 1, cost_usd, ...more }]),
      ]);
    await touch(some, "0.00000615", { input_tokens: 13, output_tokens: 7 });
    await touch(many, "1", { input_tokens: 1_000_000, output_tokens: 1_000_000 });
    await abandon(db, some, 60);
    await abandon(db, many, 60);
    await sweep(db);
    expect(await runRow(db, some)).toMatchObject({ usage_source: "estimated_partial", billed_credits: "0.06150000" });
    expect(await runRow(db, many)).toMatchObject({
      usage_source: "estimated_partial",
      billed_credits: many.reserved_credits,
    });
  });

  test("adjusts a swept run once for a late usage report from the provider, and never for a late estimate", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await begin(db, chatCall(tenant));
    await abandon(db, run, 60);
    await sweep(db);
    expect(await settle(db, [outcome(run, { usage_source: "estimated_partial", estimated: true })])).toEqual([]);
    expect(await settle(db, [outcome(run)])).toMatchObject([{ kind: "adjustment", billed_credits: "0.06150000" }]);
    expect(await settle(db, [outcome(run)])).toEqual([]);
    expect(await runRow(db, run)).toMatchObject({ status: "succeeded", usage_source: "provider", swept: false });
    expect(await books(db, tenant)).toEqual({
      balance: "99.93850000",
      reserved: "0.00000000",
      ledger: "99.93850000",
      used: "0.06150000",
      runs: "0.06150000",
      open: 0,
    });
  });

  test.for(["before", "after"])(
    "charges the usage that the provider reported, even if an estimate comes %s the report in the same batch",
    async (place, { db }) => {
      const tenant = await createTenant(db, { credits: "100" });
      const run = await begin(db, chatCall(tenant));
      await abandon(db, run, 60);
      await sweep(db);
      const said = [outcome(run, { estimated: true, usage_source: "provider_partial" }), outcome(run)];
      expect(await settle(db, place === "before" ? said : said.toReversed())).toMatchObject([{ kind: "adjustment" }]);
      expect(await runRow(db, run)).toMatchObject({ usage_source: "provider", billed_credits: "0.06150000" });
    },
  );

  test("closes abandoned runs even if one of them can't be settled", async ({ db }) => {
    const [broken, sound] = [await createTenant(db, { credits: "100" }), await createTenant(db, { credits: "100" })];
    for (const tenant of [broken, sound]) await abandon(db, await begin(db, chatCall(tenant)), 60);
    await forgetReservation(db, broken);
    await sweep(db);
    expect(await books(db, sound)).toMatchObject({ reserved: "0.00000000", open: 0 });
    expect(await books(db, broken)).toMatchObject({ open: 1 });
  });

  test("the sweeper reaches every run, even if many older runs can't be settled", async ({ db }) => {
    const [broken, sound] = [await createTenant(db, { credits: "100" }), await createTenant(db, { credits: "100" })];
    const [first, young] = [await begin(db, chatCall(broken)), await begin(db, chatCall(sound))];
    await abandon(db, first, 600);
    await abandon(db, young, 60);
    await db.query(
      `insert into ai.runs
        select (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid()))).*
        from ai.runs r cross join generate_series(1, 500)
        where r.created_at = $1 and r.id = $2`,
      [first.created_at, first.run_id],
    );
    await forgetReservation(db, broken);
    // The sweeper reads a random selection of the 501 runs, so a run that it missed is very likely included next time.
    for (let sweeps = 0; sweeps < 3 && (await runRow(db, young)).status === "running"; sweeps += 1) await sweep(db);
    expect(await books(db, sound)).toMatchObject({ reserved: "0.00000000", open: 0 });
  });

  test("the idempotency key of a swept run counts as used", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const call = chatCall(tenant, { idempotency_key: "k", fingerprint: "ab".repeat(32) });
    const run = await begin(db, call);
    await abandon(db, run, 60);
    await sweep(db);
    expect(await begin(db, call)).toMatchObject({ refused: "idempotency_key_used" });
  });
});

describe("open runs examined by the sweeper", () => {
  const secondsAgo = (column: string) => `extract(epoch from now() - ${column})::int`;

  /** Backdates the start of the run by the given seconds. */
  async function backdate(db: Database, run: OpenedRun, seconds: number): Promise<OpenedRun> {
    const row = await one<{ created_at: string }>(db, {
      sql: `update ai.runs set created_at = created_at - $3 * interval '1 second'
            where created_at = $1 and id = $2 returning created_at::text`,
      values: [run.created_at, run.run_id, seconds],
    });
    return { ...run, ...row };
  }

  /**
   * Sets the sweeper's state, and blocks other sweeps until the test ends. By default, no transaction before `xid` is
   * in progress.
   * @param state.seen the sweeper has read the runs that began at least this many seconds ago
   * @param state.sure the sweeper has certainly missed no run that began at least this many seconds ago
   * @param state.marked the sweeper recorded `xid` this many seconds ago
   */
  async function lookedUntil(
    db: Database,
    { seen, sure = seen, marked = 15, xid = "'3'" }: { seen: number; sure?: number; marked?: number; xid?: string },
  ): Promise<void> {
    await db.query(`select pg_advisory_xact_lock(${lock})`);
    await db.query(
      `update ai.sweep_progress set
         seen_until = now() - $1 * interval '1 second', sure_until = now() - $2 * interval '1 second',
         marked_at = now() - $3 * interval '1 second', marked_xid = ${xid}`,
      [seen, sure, marked],
    );
  }

  async function isListed(db: Database, run: OpenedRun): Promise<boolean> {
    return (await db.query("select from ai.long_running_runs where run_id = $1", [run.run_id])).length > 0;
  }

  const progress = (db: Database) =>
    one<{ seen: number; sure: number; marked: number }>(db, {
      sql: `select ${secondsAgo("seen_until")} as seen, ${secondsAgo("sure_until")} as sure,
              ${secondsAgo("marked_at")} as marked
            from ai.sweep_progress`,
    });

  test("the sweeper watches a run from 45 seconds after it began until it ends", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const [young, long, quick] = [
      await backdate(db, await begin(db, chatCall(tenant)), 44),
      await backdate(db, await begin(db, chatCall(tenant)), 60),
      await backdate(db, await begin(db, chatCall(tenant)), 60),
    ];
    await settle(db, [outcome(quick)]);
    await lookedUntil(db, { seen: 90 });
    await sweep(db);
    // The long run had a recent heartbeat, as the run of a long stream does.
    expect(await runRow(db, long)).toMatchObject({ status: "running" });
    expect(await Promise.all([young, long, quick].map((run) => isListed(db, run)))).toEqual([false, true, false]);

    await settle(db, [outcome(long)]);
    await sweep(db);
    expect(await isListed(db, long)).toBe(false);
  });

  test("the sweeper closes open runs that never had a heartbeat", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await backdate(db, await begin(db, chatCall(tenant)), 60);
    await db.query("update ai.runs set touched_at = created_at where id = $1", [run.run_id]);
    await lookedUntil(db, { seen: 90 });
    await sweep(db);
    expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
  });

  test("the sweeper does not read a time range again once all transactions that were open at that time have ended", async ({
    db,
  }) => {
    await lookedUntil(db, { seen: 60 });
    await sweep(db);
    expect(await progress(db)).toEqual({ seen: 45, sure: 45, marked: 0 });
  });

  test("after a long pause, one sweep reads the whole period and the next sweep reads that period again", async ({
    db,
  }) => {
    await lookedUntil(db, { seen: 900, marked: 800 });
    await sweep(db);
    expect(await progress(db)).toEqual({ seen: 45, sure: 805, marked: 0 });
    await lookedUntil(db, { seen: 60, sure: 805 });
    await sweep(db);
    expect(await progress(db)).toEqual({ seen: 45, sure: 45, marked: 0 });
  });

  test("the sweeper finds a run whose start was committed late", async () => {
    const [sweeping, late] = [openPool(1), openPool(1)];
    try {
      const tenant = await createTenant(late.db, { credits: "100" });
      // Keeps other sweeps from running meanwhile.
      await sweeping.db.query(`select pg_advisory_lock(${lock})`);
      await late.db.query("begin");
      const run = await backdate(late.db, await begin(late.db, chatCall(tenant)), 60);
      await late.db.query("update ai.runs set touched_at = created_at where id = $1", [run.run_id]);
      await lookedUntil(sweeping.db, { seen: 75, marked: 0, xid: "pg_current_xact_id()" });
      for (let sweeps = 0; sweeps < 3; sweeps += 1) await sweeping.db.query("select ai.sweep_runs()");
      const { seen, sure } = await progress(sweeping.db);
      expect(seen).toBeLessThan(60);
      expect(sure).toBeGreaterThanOrEqual(75);
      await late.db.query("commit");
      // Open transactions of other tests may still hold the sweeper back.
      await expect
        .poll(
          async () => {
            await sweeping.db.query("select ai.sweep_runs()");
            return books(late.db, tenant);
          },
          { timeout: 20_000 },
        )
        .toMatchObject({ reserved: "0.00000000", open: 0 });
    } finally {
      await sweeping.db.query(`select pg_advisory_unlock(${lock})`);
      await Promise.all([sweeping.close(), late.close()]);
    }
  });

  test("the sweeper reads a period again only after all older transactions have ended", async ({ db }) => {
    const other = openPool(1);
    await db.query("select pg_current_xact_id()");
    await other.db.query("select pg_current_xact_id()");
    await other.close();
    // The recorded transaction id belongs to `other`, whose transaction has ended. The transaction of `db` is older and
    // still open.
    await lookedUntil(db, { seen: 900, xid: "(pg_current_xact_id()::text::bigint + 1)::text::xid8" });
    await sweep(db);
    expect(await progress(db)).toEqual({ seen: 45, sure: 900, marked: 15 });
  });

  test("the sweeper catches up after the clock was set back", async ({ db }) => {
    await lookedUntil(db, { seen: -3_600, marked: -3_645 });
    await sweep(db);
    expect(await progress(db)).toEqual({ seen: 45, sure: 45, marked: 0 });
  });

  test("after the database is copied to a new cluster, the sweeper doesn't wait for the old cluster's transaction id", async ({
    db,
  }) => {
    await lookedUntil(db, { seen: 60, xid: "'9000000000000000000'" });
    await sweep(db);
    expect(await progress(db)).toEqual({ seen: 45, sure: 45, marked: 0 });
  });

  test("ai.record_long_running_runs covers at most one minute per call, and skips minutes in which no run began", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    // Backdates the runs by years, to a time that has no other runs.
    const long = 90_000_000;
    const runs: OpenedRun[] = [];
    for (const age of [500, 470, 441, 300, 300]) {
      runs.push(await backdate(db, await begin(db, chatCall(tenant)), long + age));
    }
    const ago = (age: string) => `now() - make_interval(secs => ${long} + ${age})`;
    async function note(after: number): Promise<number> {
      const sql = `select ${secondsAgo(`ai.record_long_running_runs(${ago("$1")}, ${ago("200")})`)} as at`;
      return (await one<{ at: number }>(db, { sql, values: [after] })).at - long;
    }
    const noted = async () => (await Promise.all(runs.map((run) => isListed(db, run)))).map(Number).join("");
    expect([await note(1_000), await noted()]).toEqual([440, "11100"]);
    expect([await note(440), await noted()]).toEqual([240, "11111"]);
    expect([await note(240), await noted()]).toEqual([200, "11111"]);
  });
});
