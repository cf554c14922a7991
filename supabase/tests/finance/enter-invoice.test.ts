import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { registerApp } from "../apps/fixtures.ts";
import { createUser, type Database, join, test } from "../database.ts";
import { bindKey } from "../gateway/call-fixtures.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";

type Place = Tenant & { appId: string };

async function createPlace(db: Database): Promise<Place> {
  const tenant = await createTenant(db);
  const app = await bindKey(db, tenant);
  return { ...tenant, appId: app.id };
}

const invoice = {
  provider: "openai",
  accountId: "acct-1",
  reference: "INV-1",
  amountUsd: "10.000000000001",
  issuedOn: "2026-02-03",
  reviewedAt: "2026-02-04T00:00:00Z",
};

async function call(db: Database, name: string, values: unknown[]) {
  const [row] = await db.query(`select ai.${name}(${values.map((_, n) => `$${n + 1}`).join(", ")}) as answer`, values);
  return row?.answer;
}
const review = (db: Database, { ownerId, workspaceId, appId }: Place, changes: object = {}) =>
  call(db, "review_provider_invoice", [ownerId, workspaceId, appId, JSON.stringify({ ...invoice, ...changes })]);
const record = (db: Database, { ownerId, workspaceId, appId }: Place, changes: object = {}) =>
  call(db, "record_provider_invoice", [ownerId, workspaceId, appId, JSON.stringify({ ...invoice, ...changes })]);
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

describe("the review of an invoice", () => {
  test("an invoice's review writes nothing, and uses the database's own time", async ({ db }) => {
    const place = await createPlace(db);
    const answer = await review(db, place);
    const [now] = await db.query("select ai.utc_text_microseconds(now()) as now");
    expect(answer).toMatchObject({ outcome: "reviewed", reviewedAt: now?.now, kept: null, differs: null });
    expect(
      await db.query("select from ai.external_provider_invoices where workspace_id = $1", [place.workspaceId]),
    ).toEqual([]);
    expect(await record(db, place, { reviewedAt: answer.reviewedAt })).toMatchObject({ outcome: "stored" });
  });

  test.for([
    [
      "a whole period, including both edges",
      { periodStart: "2026-01-10", periodEnd: "2026-01-20" },
      "2026-01-10",
      "2026-01-20",
    ],
    ["the rest of the month for a period without an end", { periodStart: "2026-01-10" }, "2026-01-10", "2026-01-31"],
    ["the month so far for a period without a start", { periodEnd: "2026-01-20" }, "2026-01-01", "2026-01-20"],
    ["the month of issue without a period", {}, "2026-02-01", "2026-02-28"],
  ] as const)(
    "an invoice's review compares the invoice with the costs of %s",
    async ([, period, first, last], { db }) => {
      const place = await createPlace(db);
      const [before, from, to, after] = [
        `${new Date(Date.parse(first) - 1).toISOString().slice(0, 10)}T23:59:59.999999Z`,
        `${first}T00:00:00Z`,
        `${last}T23:59:59.999999Z`,
        `${new Date(Date.parse(last) + 86_400_000).toISOString().slice(0, 10)}T00:00:00Z`,
      ];
      for (const [occurredAt, amountUsd] of [
        [before, "100"],
        [from, "1"],
        [to, "2.000000000002"],
        [after, "1000"],
      ]) {
        expect(await importCost(db, place, { occurredAt, amountUsd })).toEqual({ outcome: "stored" });
      }
      await importCost(db, place, { occurredAt: from, amountUsd: "7", accountId: "acct-2" });
      const { comparison } = await review(db, place, period);
      expect(comparison).toEqual({
        firstDay: first,
        lastDay: last,
        meteredUsd: "0",
        importedUsd: "3.000000000002",
        importedRecords: 2,
        importedDifferenceUsd: "6.999999999999",
        otherInvoicesUsd: "0",
        otherInvoices: 0,
      });
    },
  );

  test("an invoice's review covers at most 366 days", async ({ db }) => {
    const place = await createPlace(db);
    const year = { periodStart: "2024-01-01", periodEnd: "2024-12-31" };
    expect((await review(db, place, year)).comparison).toMatchObject({ firstDay: "2024-01-01" });
    expect((await review(db, place, { ...year, periodEnd: "2025-01-01" })).comparison).toBeNull();
  });

  test("an invoice's review names the invoice already recorded under its reference, and counts other invoices of its account and period", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const { id } = await record(db, place);
    expect(await review(db, place)).toMatchObject({ kept: { id, reference: "INV-1" }, differs: [] });
    const changed = { amountUsd: "10", issuedOn: "2026-02-02", periodEnd: "2026-02-01" };
    expect((await review(db, place, changed)).differs).toEqual(["amountUsd", "issuedOn", "periodEnd"]);
    const other = await review(db, place, { reference: "INV-2" });
    expect(other).toMatchObject({ kept: null, comparison: { otherInvoices: 1, otherInvoicesUsd: "10.000000000001" } });
    expect((await review(db, place, { reference: "INV-2", accountId: "acct-2" })).comparison.otherInvoices).toBe(0);
  });

  const january = { periodStart: "2026-01-01", periodEnd: "2026-01-31" };
  test.for([
    ["a period with only an end", { periodEnd: "2026-01-31" }, january, 1],
    ["a quarter that contains its month", { periodStart: "2025-12-01", periodEnd: "2026-02-28" }, january, 1],
    ["a period that shares one day", { periodStart: "2025-12-01", periodEnd: "2026-01-01" }, january, 1],
    ["a period that ends the day before", { periodStart: "2025-12-01", periodEnd: "2025-12-31" }, january, 0],
    ["a period that starts the day after", { periodStart: "2026-02-01" }, january, 0],
    [
      "a period that shares a day with the month of issue",
      {},
      { periodStart: "2026-02-28", periodEnd: "2026-03-31" },
      1,
    ],
    ["a period that starts after the month of issue", {}, { periodStart: "2026-03-01", periodEnd: "2026-03-31" }, 0],
  ] as const)(
    "an invoice's review counts another invoice only if the periods of the two invoices overlap: %s",
    async ([, one, other, found], { db }) => {
      for (const [first, second] of [
        [one, other],
        [other, one],
      ]) {
        const place = await createPlace(db);
        expect(await record(db, place, { ...first, reference: "INV-2" })).toMatchObject({ outcome: "stored" });
        const { comparison } = await review(db, place, second);
        expect(comparison.otherInvoices).toBe(found);
        expect(comparison.otherInvoicesUsd === "0").toBe(found === 0);
      }
    },
  );

  test("an invoice's review uses the same months as reconciliation", async ({ db }) => {
    for (const period of [
      {},
      { periodStart: "2026-01-10" },
      { periodEnd: "2026-01-20" },
      { periodStart: "2025-12-31", periodEnd: "2026-01-20" },
    ]) {
      const place = await createPlace(db);
      const { comparison } = await review(db, place, period);
      await record(db, place, period);
      const values = [place.ownerId, place.workspaceId, "2025-12-01", "2026-03-01"];
      const { records } = await call(db, "reconcile_costs", values);
      const months = [comparison.lastDay.slice(0, 7), comparison.firstDay.slice(0, 7)];
      expect(records.map(({ month }: { month: string }) => month)).toEqual([...new Set(months)]);
    }
  });

  test("an invoice's review refuses an issue date in the future and an app that is not linked", async ({ db }) => {
    const place = await createPlace(db);
    const [day] = await db.query(
      "select to_char(now() at time zone 'UTC', 'YYYY-MM-DD') as today, to_char(now() at time zone 'UTC' + interval '1 day', 'YYYY-MM-DD') as tomorrow",
    );
    expect(await review(db, place, { issuedOn: day?.today })).toMatchObject({ outcome: "reviewed" });
    expect(await review(db, place, { issuedOn: day?.tomorrow })).toEqual({ outcome: "not_issued_yet" });
    const stranger = await registerApp(db, { kind: "external" });
    expect(await review(db, { ...place, appId: stranger.id })).toEqual({ outcome: "app_not_linked" });
  });
});

describe("an invoice", () => {
  test("an invoice can't be recorded with a review time in the future, not even by a microsecond", async ({ db }) => {
    const place = await createPlace(db);
    const [at] = await db.query(
      `select to_char(now() at time zone 'UTC', f) as now, to_char((now() + interval '1 microsecond') at time zone 'UTC', f) as later
       from (values ('YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) as formats (f)`,
    );
    expect(await record(db, place, { reviewedAt: at?.later })).toMatchObject({
      refused: "invalid_request",
      param: "reviewedAt",
    });
    expect(await record(db, place, { reviewedAt: at?.now })).toMatchObject({ outcome: "stored" });
  });

  test("an invoice can't be changed, deleted or truncated by any role", async ({ db }) => {
    const place = await createPlace(db);
    await record(db, place);
    for (const sql of [
      "update ai.external_provider_invoices set amount_usd = amount_usd",
      "delete from ai.external_provider_invoices",
      "truncate ai.external_provider_invoices",
    ]) {
      await db.query("savepoint attempt");
      await expect(db.query(sql)).rejects.toMatchObject({ code: "23001" });
      await db.query("rollback to attempt");
    }
  });

  test("only members with use_ai_studio can read a workspace's invoices and the cost comparison of each invoice", async ({
    db,
  }) => {
    const [place, elsewhere] = [await createPlace(db), await createPlace(db)];
    const { id } = await record(db, place);
    const { ownerId, workspaceId } = place;
    expect(await call(db, "read_provider_invoice", [ownerId, workspaceId, id])).toMatchObject({
      outcome: "read",
      invoice: { id, amountUsd: "10.000000000001", reviewedAt: "2026-02-04T00:00:00.000Z" },
      recorded: { by: "person" },
      comparison: { otherInvoices: 0 },
    });
    const other = [elsewhere.ownerId, elsewhere.workspaceId, id];
    expect(await call(db, "read_provider_invoice", other)).toEqual({ outcome: "not_found" });
    const viewer = await createUser(db);
    await join(db, { workspaceId, userId: viewer.id, role: "viewer" });
    for (const [name, values] of [
      ["read_provider_invoice", [viewer.id, workspaceId, id]],
      ["list_linked_apps", [viewer.id, workspaceId]],
      ["review_provider_invoice", [viewer.id, workspaceId, place.appId, JSON.stringify(invoice)]],
    ] as const) {
      expect(await call(db, name, [...values])).toEqual({ outcome: "not_allowed" });
    }
  });

  test("an invoice names the person or app that recorded it until they are deleted", async ({ db }) => {
    const place = await createPlace(db);
    const { workspaceId, appId, ownerId } = place;
    const person = await createUser(db);
    await join(db, { workspaceId, userId: person.id, role: "member" });
    await db.query("update public.profiles set display_name = 'Ada' where id = $1", [person.id]);
    const { id } = await record(db, { ...place, ownerId: person.id });
    const recorderOf = async (invoiceId: string) =>
      (await call(db, "read_provider_invoice", [ownerId, workspaceId, invoiceId])).recorded;
    expect(await recorderOf(id)).toEqual({ by: "person", name: "Ada" });
    await db.query("delete from auth.users where id = $1", [person.id]);
    expect(await recorderOf(id)).toEqual({ by: "person", name: null });

    const sent = { ...invoice, reference: "INV-2" };
    const kept = await call(db, "store_provider_invoice", [workspaceId, appId, JSON.stringify(sent)]);
    await call(db, "log_recorded_invoice", [workspaceId, appId, JSON.stringify({ ...sent, id: kept.id }), "{}"]);
    await db.query("update private.apps set display_name = 'Notes' where id = $1", [appId]);
    expect(await recorderOf(kept.id)).toEqual({ by: "app", name: "Notes" });
  });

  test("records invoices only for enabled external apps linked to the workspace", async ({ db }) => {
    const { ownerId, workspaceId, appId } = await createPlace(db);
    const off = await registerApp(db, { kind: "external", workspaceId });
    await registerApp(db, { kind: "external" });
    await db.query("update private.apps set enabled = false where id = $1", [off.id]);
    const { apps } = await call(db, "list_linked_apps", [ownerId, workspaceId]);
    expect(apps.map(({ id }: { id: string }) => id)).toEqual([appId]);
  });
});
