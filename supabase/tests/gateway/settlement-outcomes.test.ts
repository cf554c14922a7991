import fc from "fast-check";
import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { openPool } from "../pools.ts";
import {
  begin,
  books,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  runRow,
  settle,
  type Tenant,
} from "./fixtures.ts";

const edges = [0, 1, 99, 100, 101, 1_000, 1_000_000, 2_000_000_000];
const count = fc.oneof(fc.constantFrom(...edges), fc.nat(3_000_000));
const usage = fc.record({
  input_tokens: count,
  cached_input_tokens: fc.oneof(fc.constant(0), count),
  audio_input_tokens: fc.oneof(fc.constant(0), count),
  output_tokens: count,
  reasoning_tokens: fc.oneof(fc.constant(0), count),
  audio_output_tokens: fc.oneof(fc.constant(0), count),
});
const ended = fc.record({
  usage,
  route: fc.constantFrom(1, 2, 9),
  estimated: fc.boolean(),
  source: fc.constantFrom("provider", "provider_partial", "estimated_partial"),
  status: fc.constantFrom("succeeded", "failed", "cancelled"),
});
type Ended = typeof ended extends fc.Arbitrary<infer Each> ? Each : never;

function told(run: OpenedRun, { usage: counts, route, estimated, source, status }: Ended): object {
  return outcome(run, { usage: counts, route, estimated, usage_source: source, status });
}

/** Returns each entry of the tenant's account in order: the amount and the balance after it. */
async function entries(db: Database, { workspaceId }: Tenant): Promise<{ amount: string; balance_after: string }[]> {
  return db.query(
    `select l.amount::text, l.balance_after::text from ai.credit_ledger l join ai.credit_accounts a on a.id = l.account_id
     where a.workspace_id = $1 order by l.id`,
    [workspaceId],
  );
}

describe("settling a batch of runs", () => {
  test("settling runs in a batch books the same entries as settling them one by one", { timeout: 60_000 }, async ({
    db,
  }) => {
    const options = { credits: "1000000000000", markup: "1.3", prices: { input: "0.7", output: "0.9" } };
    const [together, alone] = [await createTenant(db, options), await createTenant(db, options)];
    await fc.assert(
      fc.asyncProperty(fc.array(ended, { minLength: 1, maxLength: 12 }), async (all) => {
        const runs: [OpenedRun, OpenedRun][] = [];
        for (const _ of all) runs.push([await begin(db, chatCall(together)), await begin(db, chatCall(alone))]);
        // Runs are charged in the order of their ids, which is random within a millisecond.
        const ordered = (side: 0 | 1) =>
          runs.map((pair) => pair[side]).toSorted((run, other) => (run.run_id < other.run_id ? -1 : 1));
        await settle(
          db,
          ordered(0)
            .map((run, at) => told(run, all[at] as Ended))
            .toReversed(),
        );
        for (const [at, run] of ordered(1).entries()) await settle(db, [told(run, all[at] as Ended)]);
        expect(await entries(db, together)).toEqual(await entries(db, alone));
      }),
      { numRuns: 15 },
    );
  });

  test("in a batch, a run whose credit account is missing stays open, and the other runs are settled", async ({
    db,
  }) => {
    const [lost, sound] = [await createTenant(db, { credits: "100" }), await createTenant(db, { credits: "100" })];
    const runs = [await begin(db, chatCall(lost)), await begin(db, chatCall(sound))];
    await db.query("update ai.runs set account_id = gen_random_uuid() where id = $1", [runs[0]?.run_id]);
    const settled = await settle(
      db,
      runs.map((run) => outcome(run)),
    );
    expect(settled.map(({ id }) => id)).toEqual([runs[1]?.run_id]);
    expect(await settle(db, [outcome(runs[0] as OpenedRun)])).toEqual([]);
    expect(await books(db, sound)).toMatchObject({ balance: "99.93850000", open: 0 });
  });
});

describe("an outcome that can't be stored", () => {
  test.for([
    { why: "no usage source", changes: { usage_source: null } },
    { why: "the status of an open run", changes: { status: "running" } },
    { why: "an unknown status", changes: { status: "over" } },
    { why: "an unknown usage source", changes: { usage_source: "hearsay" } },
    { why: "a negative number of tokens", changes: { reasoning_tokens: -1 } },
    { why: "no cost", changes: { cost_usd: null } },
    { why: "a negative cost", changes: { cost_usd: "-1" } },
    { why: "a cost that is not a number", changes: { cost_usd: "NaN" } },
    { why: "credits that are not a number", changes: { credits: "NaN" } },
  ])("a run stays open if its outcome has $why", async ({ changes }, { db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const [run, sound] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    expect(await settle(db, [{ ...outcome(run), ...changes }, outcome(sound)])).toMatchObject([{ id: sound.run_id }]);
    expect(await runRow(db, run)).toMatchObject({ status: "running" });
    expect(await books(db, tenant)).toMatchObject({ balance: "99.93850000", open: 1 });
  });
});

test.for(["status = 'failed'", "status = 'failed', settled_at = now()", "status = 'running', settled_at = now()"])(
  "an update that ends a run without its full outcome is refused: %s",
  async (changes, { db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await begin(db, chatCall(tenant));
    await db.query("savepoint attempt");
    const ended = db.query(`update ai.runs set ${changes} where id = $1`, [run.run_id]);
    await expect(ended).rejects.toMatchObject({ code: "23514" });
    await db.query("rollback to savepoint attempt");
    expect(await settle(db, [outcome(run)])).toMatchObject([{ id: run.run_id }]);
  },
);

describe("credit accounts", () => {
  test("credit accounts belong to a workspace or a person, and can't be deleted once they have entries", async ({
    db,
  }) => {
    const { workspaceId } = await createTenant(db, { credits: "100" });
    const attempts = [
      "insert into ai.credit_accounts (workspace_id, user_id) values (gen_random_uuid(), gen_random_uuid())",
      "insert into ai.credit_accounts default values",
      `update ai.credit_accounts set user_id = gen_random_uuid() where workspace_id = '${workspaceId}'`,
      `update ai.credit_accounts set reserved = -1 where workspace_id = '${workspaceId}'`,
      `delete from ai.credit_accounts where workspace_id = '${workspaceId}'`,
      "insert into ai.credit_ledger (account_id, kind, amount, balance_after) values (gen_random_uuid(), 'usage', 1, 1)",
      "insert into ai.credit_ledger (account_id, kind, amount, balance_after) values (gen_random_uuid(), 'gift', 1, 1)",
      ...["run_id", "run_created_at"].map(
        (half) => `insert into ai.credit_ledger (account_id, kind, amount, balance_after, ${half})
          select gen_random_uuid(), 'refund', 1, 1, ${half === "run_id" ? "gen_random_uuid()" : "now()"}`,
      ),
    ];
    for (const sql of attempts) {
      await db.query("savepoint attempt");
      await expect(db.query(sql)).rejects.toMatchObject({ code: expect.stringMatching(/^23(514|001)$/) });
      await db.query("rollback to savepoint attempt");
    }
    await db.query("insert into ai.credit_accounts (workspace_id) values (gen_random_uuid())");
  });
});

describe("settling runs on many connections", () => {
  test("if connections report the same outcomes in different orders, each outcome is booked once", {
    timeout: 60_000,
  }, async () => {
    const { db, close } = openPool(12);
    try {
      const payers = await Promise.all(
        Array.from({ length: 5 }, (_, n) =>
          createTenant(db, { credits: "1000", ...(n % 2 ? { key: { monthlyBudgetUsd: "100" } } : {}) }),
        ),
      );
      const key = () => ({ idempotency_key: crypto.randomUUID(), fingerprint: "ab".repeat(32) });
      const runs = await Promise.all(
        payers.flatMap((tenant) =>
          Array.from({ length: 8 }, (_, n) => begin(db, chatCall(tenant, n % 4 === 0 ? key() : {}))),
        ),
      );
      const answers = await Promise.all(
        Array.from({ length: 24 }, (_, n) => {
          const shuffled = runs.toSorted(() => Math.random() - 0.5).slice(0, n < 12 ? runs.length : 7);
          return settle(
            db,
            shuffled.map((run) => outcome(run)),
          );
        }),
      );
      expect(answers.flat()).toHaveLength(runs.length);
      for (const tenant of payers) {
        expect(await books(db, tenant)).toEqual({
          balance: "999.50800000",
          reserved: "0.00000000",
          ledger: "999.50800000",
          used: "0.49200000",
          runs: "0.49200000",
          open: 0,
        });
      }
    } finally {
      await close();
    }
  });

  test("a batch that waits for an account has locked no account with a higher id", async () => {
    const [settling, blocking] = [openPool(1), openPool(1)];
    try {
      const tenants: Tenant[] = [];
      for (let n = 0; n < 6; n += 1) tenants.push(await createTenant(blocking.db, { credits: "100" }));
      const runs: OpenedRun[] = [];
      for (const tenant of tenants) runs.push(await begin(blocking.db, chatCall(tenant)));
      const accounts = await blocking.db.query<{ id: string }>(
        "select id from ai.credit_accounts where workspace_id = any ($1) order by id",
        [tenants.map(({ workspaceId }) => workspaceId)],
      );
      const [{ pid } = { pid: 0 }] = await settling.db.query<{ pid: number }>("select pg_backend_pid() as pid");
      await blocking.db.query("begin");
      await blocking.db.query("select from ai.credit_accounts where id = $1 for update", [accounts[0]?.id]);
      const settled = settle(
        settling.db,
        runs.map((run) => outcome(run)),
      );
      const waiting = "select from pg_locks where pid = $1 and not granted";
      await expect.poll(() => blocking.db.query(waiting, [pid]), { timeout: 10_000 }).toHaveLength(1);
      await blocking.db.query("select from ai.credit_accounts where id = any ($1) for update nowait", [
        accounts.map(({ id }) => id),
      ]);
      await blocking.db.query("commit");
      expect(await settled).toHaveLength(runs.length);
    } finally {
      await Promise.all([blocking.close(), settling.close()]);
    }
  });
});
