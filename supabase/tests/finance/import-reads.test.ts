import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { bindKey } from "../gateway/call-fixtures.ts";
import {
  begin,
  chatCall,
  createTenant,
  outcome,
  settle,
  type Tenant,
  type TenantOptions,
} from "../gateway/fixtures.ts";

type Place = Tenant & { appId: string };

async function createPlace(db: Database, options: TenantOptions = {}): Promise<Place> {
  const tenant = await createTenant(db, options);
  const app = await bindKey(db, tenant);
  return { ...tenant, appId: app.id };
}

async function call(db: Database, name: string, values: unknown[]) {
  const [row] = await db.query(`select ai.${name}(${values.map((_, n) => `$${n + 1}`).join(", ")}) as answer`, values);
  return row?.answer;
}
const record = (db: Database, { ownerId, workspaceId, appId }: Place, period: object) =>
  call(db, "record_provider_invoice", [
    ownerId,
    workspaceId,
    appId,
    JSON.stringify({
      provider: "openai",
      amountUsd: "10",
      issuedOn: "2026-02-03",
      reviewedAt: "2026-02-04T00:00:00Z",
      ...period,
    }),
  ]);
const importCost = (db: Database, { workspaceId, appId }: Place, changes: object) =>
  call(db, "store_provider_cost", [
    workspaceId,
    appId,
    JSON.stringify({
      provider: "openai",
      accountId: "acct-1",
      externalRunId: randomUUID(),
      amountUsd: "1",
      observedAt: "2026-03-01T00:00:00Z",
      ...changes,
    }),
  ]);

type Listed = { counted: boolean; replacedBy: string | null; amountUsd: string; externalRunId: string };

describe("lists of imports", () => {
  test("provider costs and their totals can be filtered by provider, by account, and by the absence of an account", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const { ownerId, workspaceId } = place;
    const occurredAt = "2026-01-10T00:00:00Z";
    await importCost(db, place, { occurredAt });
    await importCost(db, place, { occurredAt, accountId: undefined, amountUsd: "2" });
    await importCost(db, place, { occurredAt, provider: "other", amountUsd: "4" });
    const totalOf = async (filter: object) => {
      const values = [ownerId, workspaceId, "2026-01-01", "2026-02-01", null, 50, JSON.stringify(filter)];
      const { totals, records } = await call(db, "list_provider_costs", values);
      expect(records).toHaveLength(totals.records);
      return totals.amountUsd;
    };
    expect(await totalOf({})).toBe("7");
    expect(await totalOf({ provider: "openai" })).toBe("3");
    expect(await totalOf({ accountId: "acct-1" })).toBe("5");
    expect(await totalOf({ accountId: null })).toBe("2");
    expect(await totalOf({ provider: "other", accountId: null })).toBe("0");
  });

  test("pages of imported costs contain each record exactly once, and omit totals if these are not requested", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const { ownerId, workspaceId } = place;
    for (let n = 0; n < 5; n++) await importCost(db, place, { occurredAt: "2026-01-10T00:00:00Z", amountUsd: `${n}` });
    await importCost(db, place, { occurredAt: "2026-01-10T00:00:00Z", granularity: "account_day", amountUsd: "9" });
    const list = (...rest: unknown[]) =>
      call(db, "list_provider_costs", [ownerId, workspaceId, "2026-01-01", "2026-02-01", ...rest]);
    const whole = await list(null, 50, "{}");
    const paged: { id: string; occurredAt: string }[] = [];
    for (let last: (typeof paged)[number] | undefined; paged.length < 6; last = paged.at(-1)) {
      const before = last ? JSON.stringify({ createdAt: last.occurredAt, id: last.id }) : null;
      const page = await list(before, 2, "{}", false);
      expect(page).not.toHaveProperty("totals");
      expect(page.records).toHaveLength(2);
      paged.push(...page.records);
    }
    expect(paged).toEqual(whole.records);
  });

  test("the list of a month's invoices contains the invoices that reconciliation counts in that month", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const { ownerId, workspaceId } = place;
    await record(db, place, { reference: "A", periodStart: "2026-01-31" });
    await record(db, place, { reference: "B", periodEnd: "2026-01-31" });
    await record(db, place, { reference: "C" });
    const of = async (month: string) => {
      const filter = JSON.stringify({ month });
      const { records } = await call(db, "list_provider_invoices", [ownerId, workspaceId, null, 50, filter]);
      return records.map(({ reference }: { reference: string }) => reference).sort();
    };
    expect([await of("2026-01"), await of("2026-02"), await of("2026-03")]).toEqual([["A", "B"], ["C"], []]);
    const { records } = await call(db, "reconcile_costs", [ownerId, workspaceId, "2026-01-01", "2026-04-01"]);
    expect(records.map((line: { month: string; invoices: number }) => [line.month, line.invoices])).toEqual([
      ["2026-02", 1],
      ["2026-01", 2],
    ]);
  });

  test("compares metered and imported amounts page by page, with the same totals on each page, for all providers or for one", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const { ownerId, workspaceId } = place;
    const at = { occurredAt: "2026-01-10T00:00:00Z" };
    for (const [provider, amountUsd] of [
      ["b", "0.1"],
      ["b", "0.000000000001"],
      ["a", "2"],
      ["_c", "4"],
    ])
      await importCost(db, place, { ...at, provider, amountUsd });
    await importCost(db, place, { occurredAt: "2026-02-01T00:00:00Z", provider: "late" });
    await record(db, place, { provider: "invoiced", reference: "A", periodStart: "2026-01-01" });
    const compare = (...rest: unknown[]) =>
      call(db, "compare_costs", [ownerId, workspaceId, "2026-01-01", "2026-02-01", ...rest]);
    const lines = [
      { provider: "_c", meteredUsd: "0", importedUsd: "4", importedRecords: 1 },
      { provider: "a", meteredUsd: "0", importedUsd: "2", importedRecords: 1 },
      { provider: "b", meteredUsd: "0", importedUsd: "0.100000000001", importedRecords: 2 },
    ];
    const totals = { meteredUsd: "0", importedUsd: "6.100000000001", importedRecords: 4, providers: 3 };
    expect(await compare()).toEqual({ outcome: "listed", totals, records: lines });
    expect(await compare(null, null, 2)).toEqual({ outcome: "listed", totals, records: lines.slice(0, 2) });
    expect(await compare(null, "a", 2)).toEqual({ outcome: "listed", totals, records: lines.slice(2) });
    expect(await compare("A")).toMatchObject({
      totals: { importedUsd: "2", providers: 1 },
      records: [{ provider: "a" }],
    });
    expect(await compare("invoiced")).toMatchObject({ totals: { importedUsd: "0", providers: 0 }, records: [] });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      workspaceId,
    ]);
    expect(await compare("a")).toMatchObject({ totals: { meteredUsd: null }, records: [{ meteredUsd: null }] });
    const [stranger, early] = [randomUUID(), "2024-01-01"];
    expect((await call(db, "compare_costs", [stranger, workspaceId])).outcome).toBe("not_allowed");
    expect((await call(db, "compare_costs", [ownerId, workspaceId, early, "2026-01-01"])).outcome).toBe("bad_window");
  });

  test("reconciles a run under its billing provider and account, or under its route's provider if it has neither", async ({
    db,
  }) => {
    // USD 1 per run.
    const place = await createPlace(db, { credits: "1000000000", prices: { input: "1", output: "1" } });
    const { ownerId, workspaceId } = place;
    const [{ first = "" } = {}] = await db.query<{ first: string }>(
      "select to_char(date_trunc('month', now(), 'UTC') at time zone 'UTC', 'YYYY-MM-DD') as first",
    );
    const run = async (billing: object) => {
      const begun = await begin(db, chatCall(place));
      await settle(db, [outcome(begun, { usage: { input_tokens: 1_000_000, output_tokens: 0 }, ...billing })]);
    };
    const tomorrow = new Date(Date.now() + 86_400_000);
    const reconcile = async () =>
      (await call(db, "reconcile_costs", [ownerId, workspaceId, `${first}T00:00:00Z`, tomorrow])).records;
    const at = { occurredAt: `${first}T00:00:00Z`, observedAt: `${first}T00:00:00Z` };

    await run({});
    await importCost(db, place, { ...at, provider: "demo" });
    const unnamed = { meteredUsd: null, importedDifferenceUsd: null, runs: null };
    expect(await reconcile()).toMatchObject([
      { provider: "demo", meteredUsd: "1", runs: 1, accounts: [{ accountId: "acct-1", ...unnamed }] },
    ]);

    await run({ billing_name: "openai", billing_account: "acct-1" });
    await run({ billing_name: "openai", billing_account: "acct-2" });
    await importCost(db, place, at);
    const named = [
      { accountId: "acct-1", meteredUsd: "1", importedUsd: "1", importedDifferenceUsd: "0", runs: 1 },
      { accountId: "acct-2", meteredUsd: "1", importedUsd: "0", importedDifferenceUsd: "-1", runs: 1 },
    ];
    expect(await reconcile()).toMatchObject([
      { provider: "demo" },
      { provider: "openai", meteredUsd: "2", accounts: named },
    ]);
    const periodEnd = new Date().toISOString().slice(0, 10);
    const entry = { provider: "openai", amountUsd: "1", issuedOn: first, periodStart: first, periodEnd };
    const meteredFor = async (accountId?: string) => {
      const record = JSON.stringify({ ...entry, ...(accountId ? { accountId } : {}) });
      return (await call(db, "invoice_comparison", [workspaceId, record])).meteredUsd;
    };
    expect([await meteredFor("acct-1"), await meteredFor()]).toEqual(["1", "2"]);

    // A run without a cost or a billing account does not stop the comparison by account.
    const free = await begin(db, chatCall(place));
    await settle(db, [
      outcome(free, { usage_source: "unavailable", status: "failed", http_status: 502, billing_name: "openai" }),
    ]);
    expect(await reconcile()).toMatchObject([
      { provider: "demo" },
      { provider: "openai", meteredUsd: "2", runs: 3, accounts: named },
    ]);

    // One run with a cost but no account is enough to leave the charges of all accounts unmatched.
    await run({ billing_name: "openai" });
    expect(await reconcile()).toMatchObject([
      { provider: "demo" },
      { provider: "openai", meteredUsd: "3", accounts: [{ accountId: "acct-1", importedUsd: "1", ...unnamed }] },
    ]);
    expect([await meteredFor("acct-1"), await meteredFor()]).toEqual([null, "3"]);

    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      workspaceId,
    ]);
    expect((await reconcile())[1]).toMatchObject({ meteredUsd: null, importedDifferenceUsd: null });
  });

  test("reconciles up to 366 days, and not a microsecond more", async ({ db }) => {
    const { ownerId, workspaceId } = await createPlace(db);
    const outcomeOf = async (to: string) =>
      (await call(db, "reconcile_costs", [ownerId, workspaceId, "2024-01-01T00:00:00Z", to])).outcome;
    expect(await outcomeOf("2025-01-01T00:00:00Z")).toBe("listed");
    expect(await outcomeOf("2025-01-01T00:00:00.000001Z")).toBe("bad_window");
  });

  test("reconciles whole months if no start is given, because a partial month would omit its invoice", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const reconcile = (to: string | null) => call(db, "reconcile_costs", [place.ownerId, place.workspaceId, null, to]);
    await db.query("set local timezone = 'Asia/Kolkata'");
    const begins = [
      ["2026-11-22T19:00:00Z", "2025-12-01T00:00:00.000Z"],
      ["2026-12-01T00:00:00Z", "2025-12-01T00:00:00.000Z"],
      ["2026-12-01T00:00:00.000001Z", "2025-12-01T00:00:00.000Z"],
      ["2025-01-01T00:00:00Z", "2024-01-01T00:00:00.000Z"],
      ["2025-01-01T00:00:00.000001Z", "2024-02-01T00:00:00.000Z"],
      ["2024-03-01T00:00:00Z", "2023-03-01T00:00:00.000Z"],
    ] as const;
    for (const [to, from] of begins) expect([to, (await reconcile(to)).from]).toEqual([to, from]);
    expect((await reconcile(null)).from).toMatch(/-01T00:00:00.000Z$/);

    await record(db, place, { reference: "I-1", periodStart: "2025-11-01", periodEnd: "2025-11-30" });
    await importCost(db, place, { occurredAt: "2025-11-30T12:00:00Z", observedAt: "2025-12-01T00:00:00Z" });
    expect((await reconcile("2026-11-22T19:00:00Z")).records).toEqual([]);
    expect((await reconcile("2026-10-31T00:00:00Z")).records).toMatchObject([{ month: "2025-11", invoicedUsd: "10" }]);
  });

  test("import totals are the exact sums of their rows, in one range, in two adjacent ranges and in reconciliation", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const { ownerId, workspaceId } = place;
    const hour = fc.integer({ min: 0, max: 71 });
    const cost = fc.record({
      accountId: fc.constantFrom("acct-1", "acct-2", undefined),
      hour,
      day: fc.boolean(),
      service: fc.constantFrom("chat", "images", undefined),
      units: fc.integer({ min: 0, max: 1_000_000 }),
      observed: fc.integer({ min: 10, max: 59 }),
    });
    const at = (hours: number) => new Date(Date.UTC(2026, 0, 30, hours)).toISOString();
    for (const { accountId, hour: hours, day, service, units, observed } of fc.sample(cost, {
      numRuns: 120,
      seed: 7,
    })) {
      const asDay = day && accountId !== undefined;
      await importCost(db, place, {
        accountId,
        ...(service ? { service } : {}),
        ...(asDay ? { granularity: "account_day" } : {}),
        occurredAt: asDay ? `${at(hours).slice(0, 10)}T00:00:00Z` : at(hours),
        observedAt: `2026-03-01T00:00:${observed}Z`,
        amountUsd: `0.${String(units).padStart(12, "0")}`,
      });
    }
    const unitsOf = (amounts: string[]) =>
      amounts.reduce((sum, amount) => sum + BigInt((amount.split(".")[1] ?? "").padEnd(12, "0")), 0n);
    const list = async (from: string, to: string) => {
      const { totals, records } = await call(db, "list_provider_costs", [ownerId, workspaceId, from, to, null, 500]);
      const counted = records.filter((line: Listed) => line.counted).map((line: Listed) => line.amountUsd);
      const replaced = records.filter((line: Listed) => !line.counted);
      expect(unitsOf([totals.amountUsd])).toBe(unitsOf(counted));
      expect(unitsOf([totals.replacedUsd])).toBe(unitsOf(replaced.map((line: Listed) => line.amountUsd)));
      expect([totals.records, totals.replacedRecords]).toEqual([records.length, replaced.length]);
      expect(replaced.every((line: Listed) => line.replacedBy !== null)).toBe(true);
      return unitsOf([totals.amountUsd]);
    };
    const whole = await list(at(0), at(72));
    expect(whole).toBeGreaterThan(0n);
    for (const edge of [1, 24, 37, 48, 71]) {
      expect((await list(at(0), at(edge))) + (await list(at(edge), at(72)))).toBe(whole);
    }
    const { totals } = await call(db, "reconcile_costs", [ownerId, workspaceId, at(0), at(72)]);
    expect(unitsOf([totals.importedUsd])).toBe(whole);
  });
});
