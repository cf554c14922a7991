import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { one, test } from "../database.ts";
import { bindKey } from "../gateway/call-fixtures.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { rollUp, setMarkBack } from "../usage/usage-sums.ts";
import { addRun, dayOf, platformBook } from "./platform-book-fixtures.ts";

const month = "2026-10";
const day = (number: number) => dayOf(month, number);
const newProvider = () => `p-${randomUUID().slice(0, 8)}`;

describe("the platform's reconciliation", () => {
  test("the platform's reconciliation shows no difference for a corrected invoice, a credit note or a three-month invoice", async ({
    db,
  }) => {
    const { workspaceId } = await createTenant(db);
    const corrected = await platformBook(db, { provider: newProvider(), month });
    await addRun(db, { workspaceId, day: day(2), costUsd: "80", billedBy: corrected.provider, account: "acct-1" });
    await corrected.cost(day(2), "80");
    await corrected.record({ reference: "INV-1", amountUsd: "100", accountId: "acct-1" });
    await corrected.record({ reference: "INV-1-R1", amountUsd: "80", accountId: "acct-1", replaces: "INV-1" });

    const credited = await platformBook(db, { provider: newProvider(), month });
    await addRun(db, { workspaceId, day: day(3), costUsd: "9.5", billedBy: credited.provider, account: "acct-1" });
    await credited.cost(day(3), "10");
    await credited.cost(day(4), "-0.5");
    await credited.record({ reference: "INV-1", amountUsd: "10", accountId: "acct-1" });
    await credited.record({ reference: "CN-1", amountUsd: "0.5", accountId: "acct-1", kind: "credit_note" });

    // The three months have 31, 30 and 31 of the 92 days.
    const quarterly = await platformBook(db, { provider: newProvider(), month });
    for (const [of, amount] of [
      ["2026-08", "31"],
      ["2026-09", "30"],
      ["2026-10", "31"],
    ] as const) {
      await addRun(db, {
        workspaceId,
        day: dayOf(of, 5),
        costUsd: amount,
        billedBy: quarterly.provider,
        account: "acct-1",
      });
      await quarterly.cost(dayOf(of, 5), amount);
    }
    const quarter = { amountUsd: "92", accountId: "acct-1", periodStart: "2026-08-01", periodEnd: "2026-10-31" };
    await quarterly.record({ reference: "Q3", ...quarter });

    const agrees = { importedDifferenceUsd: "0", invoicedDifferenceUsd: "0" };
    expect(await corrected.line()).toMatchObject({ ...agrees, meteredUsd: "80", invoices: 1 });
    expect(await credited.line()).toMatchObject({ ...agrees, meteredUsd: "9.5", importedUsd: "9.5", invoices: 2 });
    for (const [of, invoicedUsd] of [
      ["2026-08", "31"],
      ["2026-09", "30"],
      ["2026-10", "31"],
    ]) {
      expect(await quarterly.line(of)).toMatchObject({ ...agrees, invoicedUsd });
    }
    for (const book of [corrected, quarterly]) expect((await book.explain()).causes).toEqual([]);
  });

  test("the platform's metered amounts are the sums over all workspaces", async ({ db }) => {
    const provider = newProvider();
    const book = await platformBook(db, { provider, month });
    const tenants = [await createTenant(db), await createTenant(db), await createTenant(db)];
    for (const [place, { workspaceId }] of tenants.entries()) {
      for (const number of [1, 15, 31]) {
        const costUsd = `${place + 1}.00000000000${number % 7}`;
        await addRun(db, { workspaceId, day: day(number), costUsd, billedBy: provider, account: `acct-${place % 2}` });
      }
    }
    const line = await book.line();
    const [sums] = await db.query(
      `select trim_scale(sum(r.metered))::text as metered, sum(r.runs)::integer as runs
       from unnest($1::uuid[]) as w (id)
       cross join lateral ai.reconciled_costs(w.id, '2026-10-01T00:00:00Z', '2026-11-01T00:00:00Z') r
       where r.provider = $2`,
      [tenants.map(({ workspaceId }) => workspaceId), provider],
    );
    expect(line).toMatchObject({ meteredUsd: sums?.metered, runs: sums?.runs });
    const { workspaces, days } = await book.explain();
    const total = (rows: { meteredUsd: string }[]) => rows.reduce((sum, row) => sum + Number(row.meteredUsd), 0);
    expect(workspaces).toHaveLength(3);
    expect(total(workspaces)).toBeCloseTo(Number(line.meteredUsd), 11);
    expect(total(days)).toBeCloseTo(Number(line.meteredUsd), 11);
  });

  test("the platform's metered amounts count each run once, whether the run's day is summarized, was changed after that, or is today", async ({
    db,
  }) => {
    const provider = newProvider();
    const [today = "", yesterday = "", before = ""] = [0, 1, 2].map((age) =>
      new Date(Date.now() - age * 86_400_000).toISOString().slice(0, 10),
    );
    const months = [...new Set([today, yesterday, before].map((each) => each.slice(0, 7)))];
    const book = await platformBook(db, { provider, month: today.slice(0, 7) });
    const { workspaceId } = await createTenant(db);
    await addRun(db, { workspaceId, day: before, costUsd: "1", billedBy: provider, usageSource: "estimated_partial" });
    await addRun(db, { workspaceId, day: yesterday, costUsd: "2", billedBy: provider });
    await addRun(db, { workspaceId, day: today, costUsd: "4", billedBy: provider });
    const check = async (metered: number) => {
      const lines = [];
      const workspaces = [];
      for (const of of months) {
        lines.push(await book.line(of));
        workspaces.push(...(await book.explain(of)).workspaces);
      }
      const sum = (rows: Record<string, unknown>[], name: string) =>
        rows.reduce((all, row) => all + Number(row[name]), 0);
      expect([sum(lines, "meteredUsd"), sum(workspaces, "meteredUsd")]).toEqual([metered, metered]);
      expect([sum(lines, "runs"), sum(workspaces, "runs"), sum(workspaces, "estimatedRuns")]).toEqual([3, 3, 1]);
    };
    await setMarkBack(db, 2);
    await check(7);
    await rollUp(db);
    await check(7);
    // The report reads the day's stored sum, and changes since then.
    await db.query("update ai.usage_daily set cost_usd = cost_usd + 100 where workspace_id = $1 and day = $2", [
      workspaceId,
      before,
    ]);
    await check(107);
    await db.query("update ai.runs set cost_usd = cost_usd + 1 where workspace_id = $1 and created_at < $2", [
      workspaceId,
      yesterday,
    ]);
    await check(108);
    await setMarkBack(db, 2);
    await check(8);
  });

  test("the platform's reconciliation reads daily sums instead of runs, and does not read workspaces' imports", async ({
    db,
  }) => {
    const book = await platformBook(db, { provider: newProvider(), month });
    const { workspaceId, ownerId } = await createTenant(db);
    await addRun(db, { workspaceId, day: day(2), costUsd: "1", billedBy: book.provider, account: "acct-1" });
    await db.query(
      `insert into ai.runs
       select (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid()))).*
       from ai.runs r, generate_series(1, 1999)
       where r.workspace_id = $1`,
      [workspaceId],
    );
    const numbers = Array.from({ length: 28 }, (_, place) => place + 1);
    for (const number of numbers) await book.cost(day(number), "1");
    await rollUp(db);
    // Other tests also analyze these tables. The resulting statistics may lead the planner to scan a small table
    // sequentially.
    await db.query("set local enable_seqscan = off");
    const rowsRead = async (tables: string) => {
      const [row] = await db.query<{ read: number }>(
        `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as read
         from pg_catalog.pg_stat_xact_user_tables where schemaname = 'ai' and relname ~ $1`,
        [tables],
      );
      return row?.read ?? 0;
    };
    const reads = async (tables: string, work: () => Promise<unknown>) => {
      const earlier = await rowsRead(tables);
      await work();
      return (await rowsRead(tables)) - earlier;
    };
    expect(await reads("^runs_2026_10$|^runs_default$", () => book.line())).toBe(0);
    expect(await reads("^runs_2026_10$|^runs_default$", () => book.explain())).toBe(0);
    const reconcile = () =>
      db.query("select ai.reconcile_costs($1, $2, '2026-10-01', '2026-11-01')", [ownerId, workspaceId]);
    expect(await reads("^external_provider_", reconcile)).toBe(0);
    const own = await reads("^external_provider_", () => book.line());
    expect(own).toBeGreaterThanOrEqual(28);
    for (const number of numbers) await book.ownCost(workspaceId, day(number), "1");
    expect(await reads("^external_provider_", () => book.line())).toBe(own);
    expect(await book.line()).toMatchObject({ meteredUsd: "2000", runs: 2000, importedUsd: "28" });
  });

  test("the platform's records don't change a workspace's books, and a workspace's records don't change the platform's", async ({
    db,
  }) => {
    const provider = newProvider();
    const book = await platformBook(db, { provider, month });
    const tenant = await createTenant(db);
    const { id: appId } = await bindKey(db, tenant);
    await addRun(db, { workspaceId: tenant.workspaceId, day: day(2), costUsd: "5", billedBy: provider });
    const ask = async (name: string, values: unknown[]) => {
      const sql = `select ai.${name}(${values.map((_, place) => `$${place + 1}`).join(", ")}) as answer`;
      return (await one(db, { sql, values: [...values] })).answer;
    };
    const own = async () =>
      (await ask("reconcile_costs", [tenant.ownerId, tenant.workspaceId, "2026-10-01", "2026-11-01"])).records[0];
    const keep = (reference: string) =>
      ask("record_provider_invoice", [
        tenant.ownerId,
        tenant.workspaceId,
        appId,
        JSON.stringify({ provider, reference, amountUsd: "7", issuedOn: day(28), reviewedAt: `${day(29)}T00:00:00Z` }),
      ]);
    await book.ownCost(tenant.workspaceId, day(2), "6");
    await keep("INV-1");
    expect(await book.line()).toMatchObject({
      meteredUsd: "5",
      importedUsd: "0",
      invoicedUsd: "0",
      importedRecords: 0,
    });
    expect((await book.list()).records).toEqual([]);
    const before = await own();
    expect(before).toMatchObject({ meteredUsd: "5", importedUsd: "6", invoicedUsd: "7" });

    await book.cost(day(2), "60");
    expect(await book.record({ reference: "INV-1", amountUsd: "70" })).toMatchObject({ outcome: "stored" });
    expect(await own()).toEqual(before);
    expect(await book.line()).toMatchObject({ meteredUsd: "5", importedUsd: "60", invoicedUsd: "70" });
    const values = [tenant.ownerId, tenant.workspaceId, null, 50, "{}"];
    expect((await ask("list_provider_invoices", values)).records).toHaveLength(1);
  });

  test("lists the platform's costs of a month, and shows which are counted and which are replaced", async ({ db }) => {
    const book = await platformBook(db, { provider: newProvider(), month });
    await book.cost(day(1), "3", { service: "tokens" });
    await book.cost(day(1), "4");
    await book.cost(day(31), "2", { account: "acct-2" });
    await book.cost("2026-11-01", "8");
    await book.cost("2026-09-30", "16");
    const { provider } = book;
    const list = (filter: object) =>
      book.call("list_provider_costs", [day(1), "2026-11-01", null, 50, JSON.stringify({ provider, ...filter })]);
    const { totals, records } = await list({});
    expect(totals).toEqual({ amountUsd: "6", records: 3, replacedRecords: 1, replacedUsd: "3" });
    expect(records.map(({ amountUsd, counted }: Record<string, unknown>) => [amountUsd, counted])).toEqual([
      ["2", true],
      expect.anything(),
      expect.anything(),
    ]);
    expect((await list({ accountId: "acct-2" })).totals).toMatchObject({ amountUsd: "2", records: 1 });
    expect((await list({ provider: provider.toUpperCase() })).totals).toMatchObject({ records: 3 });
  });
});
