import pg from "pg";
import { expect, test } from "vitest";
import { fill, growthTenant } from "../../scripts/bench/growth/data.ts";
import { countRowsRead } from "../../scripts/bench/growth/measure.ts";
import { type Bound, operations } from "../../scripts/bench/growth/operations.ts";
import { readStack } from "../../scripts/test/stack.ts";

const small = { runs: 1_000, accounts: 50 };
const tenfold = { runs: 10_000, accounts: 500 };
/** The tables that `fill` writes to, also through triggers, and others that the operations read. */
const filled = [
  "ai.runs",
  "ai.refused_calls",
  "ai.credit_ledger",
  "ai.external_provider_costs",
  "ai.usage_changes",
  "ai.keys",
  "ai.plans",
  "auth.users",
  "auth.sessions",
  "private.account_search",
  "private.admin_audit_log",
  "public.profiles",
  "public.security_events",
  "public.workspaces",
  "public.workspace_members",
];
/**
 * Returns how many rows an operation may read beyond its bound, because a bitmap scan may read more rows than it
 * returns. At this size, reading one month's partition of runs may cost less than an index scan, so the limit for runs
 * allows one month but not all months. Among the accounts of other tests, sorting all matching accounts may cost less
 * than reading them in order.
 */
function slackOf(what: string): number {
  if (what.startsWith("runs: ")) return tenfold.runs / 4;
  return what === "console: part of an email of all accounts" ? tenfold.accounts : 200;
}

/** Returns the factor by which the number of rows read may grow when the data grows tenfold. */
const mostOf = (bound: Bound) => (bound === "constant" ? 1.5 : bound === "logarithmic" ? 2 : 12);

test("list and search queries read no more rows when the data grows tenfold", async () => {
  const client = new pg.Client({ connectionString: readStack().supabase.dbUrl });
  await client.connect();
  try {
    await client.query("begin");
    const tenant = await growthTenant(client);
    const progress = { show: () => undefined, signal: new AbortController().signal };
    const measure = async () => {
      // Analyzes only these tables, because ANALYZE stores table sizes that the rollback does not restore.
      await client.query(`analyze ${filled.join(", ")}`);
      // Keeps the planner from reading a small table whole. Makes random reads about as cheap as sequential ones, as
      // they are on hosted disks.
      await client.query("set local enable_seqscan = off; set local random_page_cost = 1.1");
      const read: { what: string; bound: Bound; rows: number }[] = [];
      for (const operation of operations(tenant)) {
        // Disables index scans for searches. Otherwise, the planner might scan the sort-order index and compare every
        // row.
        await client.query(`set local enable_indexscan = ${operation.bound === "logarithmic" ? "off" : "on"}`);
        read.push({ what: operation.what, bound: operation.bound, rows: await countRowsRead(client, operation) });
      }
      return read;
    };
    await client.query("savepoint empty");
    await fill(client, { tenant, size: small, ...progress });
    const before = await measure();
    // Entries of the ledger have ids in the order of their times, so the larger data isn't added to the smaller.
    await client.query("rollback to savepoint empty; reset enable_seqscan");
    await fill(client, { tenant, size: tenfold, ...progress });
    const measureBeyond = async () => {
      const after = await measure();
      return before
        .map(({ rows, ...operation }, place) => ({
          ...operation,
          before: rows,
          after: after[place]?.rows ?? Number.NaN,
        }))
        .filter(({ what, bound, before, after }) => !(after <= slackOf(what) + before * mostOf(bound)));
    };
    // Measures up to three times before failing. ANALYZE stores table sizes for all transactions, so another test's
    // ANALYZE may have changed a plan.
    let beyond = await measureBeyond();
    for (let again = 0; beyond.length > 0 && again < 2; again += 1) {
      const measured = await measureBeyond();
      beyond = measured.filter(({ what }) => beyond.some((operation) => operation.what === what));
    }
    expect(beyond).toEqual([]);
  } finally {
    await client.query("rollback");
    await client.end();
  }
}, 120_000);
