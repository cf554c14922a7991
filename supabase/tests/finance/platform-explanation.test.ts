import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { type AddedRun, addRun, dayOf, platformBook } from "./platform-book-fixtures.ts";

const month = "2026-10";
const day = (number: number) => dayOf(month, number);

/** Prepares a provider's reconciliation for a month, with three workspaces. */
async function threeWorkspaces(db: Database) {
  const book = await platformBook(db, { provider: `p-${randomUUID().slice(0, 8)}`, month });
  const workspaces: { id: string; name: string }[] = [];
  for (const name of ["North", "South", "West"]) {
    const { workspaceId: id } = await createTenant(db);
    await db.query("update public.workspaces set name = $2 where id = $1", [id, name]);
    workspaces.push({ id, name });
  }
  const [north, south, west] = workspaces;
  if (!north || !south || !west) throw new Error("no workspaces");
  const run = (workspace: { id: string }, number: number, costUsd: string, changes: Partial<AddedRun> = {}) =>
    addRun(db, {
      workspaceId: workspace.id,
      day: day(number),
      costUsd,
      billedBy: book.provider,
      account: "acct-1",
      ...changes,
    });
  const causes = async () => (await book.explain()).causes;
  return { ...book, north, south, west, run, causes };
}

describe("causes of a difference between invoices and runs", () => {
  test("if one invoice covers three workspaces, the workspace with missing runs is listed first", async ({ db }) => {
    const { north, south, west, run, ownCost, record, explain, line } = await threeWorkspaces(db);
    for (const [workspace, amounts] of [
      [north, ["10", "10"]],
      [south, ["20", "5"]],
      [west, ["30", "30"]],
    ] as const) {
      for (const [place, amount] of amounts.entries()) await run(workspace, place + 1, amount);
      await ownCost(workspace.id, day(1), amounts[0]);
    }
    await ownCost(north.id, day(2), "10");
    // On the second day, South's runs cost 5 USD, but the costs imported for South are 25 USD.
    await ownCost(south.id, day(2), "25");
    await ownCost(west.id, day(2), "30");
    await record({ reference: "INV-1", amountUsd: "125" });
    expect(await line()).toMatchObject({ meteredUsd: "105", importedUsd: "0", invoicedUsd: "125" });
    const { workspaces, causes } = await explain();
    expect(workspaces).toMatchObject([
      { workspaceId: south.id, meteredUsd: "25", importedUsd: "45", differenceUsd: "20", runs: 2 },
      { workspaceId: west.id, differenceUsd: "0" },
      { workspaceId: north.id, differenceUsd: "0" },
    ]);
    expect(causes).toEqual([
      {
        kind: "workspace_costs_above_metered",
        workspaceId: south.id,
        name: "South",
        amountUsd: "20",
        days: [{ day: day(2), amountUsd: "20" }],
      },
    ]);
  });

  test("a workspace whose imported costs exceed its metered runs is listed first, even if the platform also has imported costs", async ({
    db,
  }) => {
    const { north, south, west, run, cost, ownCost, causes } = await threeWorkspaces(db);
    await run(north, 1, "10", { usageSource: "estimated_partial" });
    await run(south, 1, "20");
    await run(west, 1, "30");
    await cost(day(1), "64");
    await ownCost(south.id, day(1), "24");
    expect((await causes()).map(({ kind, name }: { kind: string; name?: string }) => [kind, name])).toEqual([
      ["workspace_costs_above_metered", "South"],
      ["account_differs", undefined],
      ["workspace_runs_estimated", "North"],
    ]);
  });

  test("compares a workspace's own invoice with its runs if the workspace has no imported costs", async ({ db }) => {
    const { south, run, record, causes } = await threeWorkspaces(db);
    await run(south, 1, "20");
    await record({ reference: "INV-1", amountUsd: "25" });
    await db.query(
      `insert into ai.external_provider_invoices (workspace_id, app_id, provider, reference, amount_usd, issued_on, reviewed_at)
       select $1, gen_random_uuid(), i.provider, 'W-1', 25, i.issued_on, i.reviewed_at
       from ai.external_provider_invoices i where i.reference = 'INV-1' order by i.recorded_at desc limit 1`,
      [south.id],
    );
    expect(await causes()).toMatchObject([
      { kind: "workspace_costs_above_metered", workspaceId: south.id, amountUsd: "5", days: [] },
    ]);
  });

  test("if a provider account's metered and imported costs differ, workspaces without runs on the affected days come first", async ({
    db,
  }) => {
    const { north, south, west, run, cost, causes } = await threeWorkspaces(db);
    for (const number of [1, 2]) {
      await run(north, number, "10");
      await run(west, number, "10", { account: "acct-2" });
      await cost(day(number), "15");
      await cost(day(number), "10", { account: "acct-2" });
    }
    await run(south, 1, "5");
    expect(await causes()).toEqual([
      {
        kind: "account_differs",
        accountId: "acct-1",
        amountUsd: "5",
        workspaces: [
          { workspaceId: south.id, name: "South", meteredUsd: "5", daysWithoutRuns: [day(2)] },
          { workspaceId: north.id, name: "North", meteredUsd: "20", daysWithoutRuns: [] },
        ],
      },
    ]);
  });

  test("lists provider accounts that no workspace uses, and provider accounts without imports", async ({ db }) => {
    const { north, south, run, cost, causes } = await threeWorkspaces(db);
    await run(north, 1, "10");
    await cost(day(1), "10");
    await cost(day(1), "7", { account: "acct-unknown" });
    await run(south, 1, "3", { account: "acct-3" });
    expect(await causes()).toEqual([
      { kind: "account_not_metered", accountId: "acct-unknown", amountUsd: "7" },
      {
        kind: "account_not_imported",
        accountId: "acct-3",
        amountUsd: "-3",
        workspaces: [{ workspaceId: south.id, name: "South", meteredUsd: "3", daysWithoutRuns: [] }],
      },
    ]);
  });

  test("lists days that were not imported, and days without runs", async ({ db }) => {
    const { north, run, cost, causes, explain } = await threeWorkspaces(db);
    for (const number of [1, 2, 3]) await run(north, number, "10");
    for (const number of [1, 5, 6]) await cost(day(number), "10");
    expect(await causes()).toEqual([
      { kind: "days_not_metered", accountId: "acct-1", amountUsd: "20", days: [day(5), day(6)] },
      { kind: "days_not_imported", accountId: "acct-1", amountUsd: "-20", days: [day(2), day(3)] },
    ]);
    const { days } = await explain();
    expect(days).toHaveLength(5);
    expect(days[1]).toEqual({ day: day(2), accountId: "acct-1", meteredUsd: "10", importedUsd: "0" });
  });

  test("an explanation first lists the causes whose amount has the same sign as the difference", async ({ db }) => {
    const { north, run, cost, causes } = await threeWorkspaces(db);
    for (const number of [1, 2, 3]) await run(north, number, "10");
    await cost(day(1), "10");
    await cost(day(5), "1");
    expect((await causes()).map(({ kind }: { kind: string }) => kind)).toEqual([
      "days_not_imported",
      "account_differs",
      "days_not_metered",
    ]);
  });

  test("compares imported and metered costs across all accounts if runs name no account", async ({ db }) => {
    const { north, south, run, cost, causes } = await threeWorkspaces(db);
    await run(north, 1, "11", { account: null });
    await run(south, 1, "10");
    await cost(day(1), "13");
    await cost(day(1), "9", { account: "acct-2" });
    expect(await causes()).toMatchObject([
      { kind: "account_differs", accountId: null, amountUsd: "1", workspaces: [{ name: "North" }, { name: "South" }] },
    ]);
  });

  test("compares all accounts together if cost records name no account", async ({ db }) => {
    const { provider, north, run, causes } = await threeWorkspaces(db);
    await run(north, 1, "10");
    await db.query(
      `insert into ai.external_provider_costs (
         workspace_id, app_id, provider, external_run_id, amount_usd, occurred_at, observed_at
       )
       values (ai.platform_book(), ai.platform_book(), $1, 'run-1', 12, $2, now())`,
      [provider, `${day(1)}T12:00:00Z`],
    );
    expect(await causes()).toMatchObject([{ kind: "account_differs", accountId: null, amountUsd: "2" }]);
  });

  test("lists estimated runs, and swept runs without a billing provider, as causes of a cost difference", async ({
    db,
  }) => {
    const { north, south, run, cost, explain } = await threeWorkspaces(db);
    await run(north, 1, "10", { providerId: "own-id" });
    await run(north, 1, "1", { usageSource: "provider_partial" });
    await run(south, 1, "0", {
      providerId: "own-id",
      billedBy: null,
      account: null,
      swept: true,
      usageSource: "unavailable",
    });
    await run(south, 1, "0", { providerId: "other-id", billedBy: null, account: null, swept: true });
    await cost(day(1), "12");
    const { workspaces, causes } = await explain();
    expect(workspaces).toMatchObject([
      { workspaceId: north.id, meteredUsd: "11", runs: 2, estimatedRuns: 1, closedRuns: 0 },
      { workspaceId: south.id, accountId: null, meteredUsd: "0", runs: 0, estimatedRuns: 0, closedRuns: 1 },
    ]);
    expect(causes).toMatchObject([
      { kind: "account_differs", amountUsd: "1" },
      { kind: "workspace_runs_closed", workspaceId: south.id, name: "South", runs: 1, amountUsd: null },
      { kind: "workspace_runs_estimated", workspaceId: north.id, name: "North", runs: 1, amountUsd: null },
    ]);
  });

  test("names the invoice as the cause if imports and runs agree", async ({ db }) => {
    const { north, run, cost, record, causes } = await threeWorkspaces(db);
    await run(north, 1, "10", { usageSource: "estimated_partial" });
    await cost(day(1), "10");
    await record({ reference: "INV-1", amountUsd: "12", accountId: "acct-1" });
    expect(await causes()).toEqual([{ kind: "invoice_share", amountUsd: "2" }]);
  });

  test("lists no cause for a difference of less than half a cent", async ({ db }) => {
    const { north, run, cost, causes } = await threeWorkspaces(db);
    await run(north, 1, "10");
    await cost(day(1), "10.004999999999");
    expect(await causes()).toEqual([]);
    await cost(day(2), "0.000000000001");
    expect(await causes()).toMatchObject([{ kind: "account_differs", amountUsd: "0.005" }]);
  });
});

describe("limits on the number of causes listed for a cost difference", () => {
  test("lists at most the 20 largest causes of the same kind for a cost difference", async ({ db }) => {
    const { run, cost, causes } = await threeWorkspaces(db);
    const addEstimated = () => run({ id: randomUUID() }, 1, "1", { usageSource: "estimated_partial" });
    const estimated = async () =>
      (await causes()).filter(({ kind }: { kind: string }) => kind === "workspace_runs_estimated").length;
    await cost(day(1), "1");
    for (let added = 0; added < 20; added += 1) await addEstimated();
    expect(await estimated()).toBe(20);
    await addEstimated();
    expect(await estimated()).toBe(20);
  });

  test("a cause that concerns a whole provider account lists only the 100 workspaces with the highest metered cost", async ({
    db,
  }) => {
    const { run, cost, causes } = await threeWorkspaces(db);
    const listed = async () => (await causes())[0].workspaces.length;
    await cost(day(1), "1");
    for (let added = 0; added < 100; added += 1) await run({ id: randomUUID() }, 1, "1");
    expect(await listed()).toBe(100);
    const most = { id: randomUUID() };
    await run(most, 1, "2");
    expect(await listed()).toBe(100);
    expect((await causes())[0].workspaces[0]).toMatchObject({ workspaceId: most.id, meteredUsd: "2" });
  });
});

describe("the list of workspaces that cause a cost difference", () => {
  test("a deleted workspace is still listed by its id", async ({ db }) => {
    const { run, explain } = await threeWorkspaces(db);
    const gone = { id: randomUUID() };
    await run(gone, 1, "10");
    expect((await explain()).workspaces).toMatchObject([{ workspaceId: gone.id, name: null, meteredUsd: "10" }]);
  });

  test("imported costs for an account without runs are compared with the workspace's runs that name no account", async ({
    db,
  }) => {
    const { north, south, run, ownCost, explain } = await threeWorkspaces(db);
    await run(north, 1, "10", { account: null });
    await ownCost(north.id, day(1), "12", { account: "acct-9" });
    await run(south, 1, "10");
    await ownCost(south.id, day(1), "3", { account: "acct-9" });
    expect((await explain()).workspaces).toMatchObject([
      { workspaceId: south.id, accountId: "acct-9", meteredUsd: "0", importedUsd: "3", differenceUsd: "3" },
      { workspaceId: north.id, accountId: null, meteredUsd: "10", importedUsd: "12", differenceUsd: "2" },
      { workspaceId: south.id, accountId: "acct-1", meteredUsd: "10", importedUsd: "0", differenceUsd: null },
    ]);
  });

  test("lists workspaces that have imported costs of their own but no runs", async ({ db }) => {
    const { west, ownCost, explain } = await threeWorkspaces(db);
    await ownCost(west.id, day(1), "12");
    expect((await explain()).workspaces).toMatchObject([
      { workspaceId: west.id, meteredUsd: "0", runs: 0, importedUsd: "12", differenceUsd: "12" },
    ]);
  });
});
