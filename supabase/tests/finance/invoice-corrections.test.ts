import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { bindKey } from "../gateway/call-fixtures.ts";
import { createTenant } from "../gateway/fixtures.ts";

const base = {
  provider: "openai",
  accountId: "acct-1",
  amountUsd: "100",
  issuedOn: "2026-02-03",
  reviewedAt: "2026-02-04T00:00:00Z",
  periodStart: "2026-01-01",
  periodEnd: "2026-01-31",
};

async function books(db: Database) {
  const tenant = await createTenant(db);
  const { workspaceId, ownerId } = tenant;
  const { id: appId } = await bindKey(db, tenant);
  const ask = async (name: string, values: unknown[]) => {
    const [row] = await db.query(
      `select ai.${name}(${values.map((_, n) => `$${n + 1}`).join(", ")}) as answer`,
      values,
    );
    return row?.answer;
  };
  const member = [ownerId, workspaceId];
  return {
    keep: (reference: string, changes: object = {}) =>
      ask("record_provider_invoice", [...member, appId, JSON.stringify({ ...base, reference, ...changes })]),
    keepForAnotherApp: async (reference: string, changes: object = {}) =>
      ask("record_provider_invoice", [
        ...member,
        (await bindKey(db, tenant)).id,
        JSON.stringify({ ...base, reference, ...changes }),
      ]),
    read: (id: string) => ask("read_provider_invoice", [...member, id]),
    review: (reference: string, changes: object = {}) =>
      ask("review_provider_invoice", [...member, appId, JSON.stringify({ ...base, reference, ...changes })]),
    list: (filter: object = {}) => ask("list_provider_invoices", [...member, null, 50, JSON.stringify(filter)]),
    invoiced: async (from = "2026-01-01T00:00:00Z", to = "2026-05-01T00:00:00Z") => {
      const { records } = await ask("reconcile_costs", [...member, from, to]);
      return records.map((record: { month: string; invoicedUsd: string }) => [record.month, record.invoicedUsd]);
    },
    cost: (changes: object) =>
      ask("store_provider_cost", [
        workspaceId,
        appId,
        JSON.stringify({
          provider: "openai",
          accountId: "acct-1",
          externalRunId: randomUUID(),
          occurredAt: "2026-01-02T00:00:00Z",
          observedAt: "2026-01-03T00:00:00Z",
          granularity: "account_day",
          ...changes,
        }),
      ]),
    costs: () => ask("list_provider_costs", [...member, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]),
  };
}

describe("a corrected invoice", () => {
  test("a corrected invoice counts instead of the invoice it replaces, and both invoices are kept", async ({ db }) => {
    const { keep, list, invoiced } = await books(db);
    await keep("INV-1");
    expect(await keep("INV-1-R1", { amountUsd: "80", replaces: "INV-1" })).toMatchObject({ outcome: "stored" });
    expect(await invoiced()).toEqual([["2026-01", "80"]]);
    const { totals, records } = await list();
    expect(totals).toEqual({ amountUsd: "80", records: 2, replacedRecords: 1 });
    expect(
      records.map(({ reference, replaces, replacedBy }: Record<string, string>) => [reference, replaces, replacedBy]),
    ).toEqual(
      expect.arrayContaining([
        ["INV-1", null, "INV-1-R1"],
        ["INV-1-R1", "INV-1", null],
      ]),
    );
  });

  test("of a chain of corrected invoices, only the last one counts", async ({ db }) => {
    const { keep, invoiced } = await books(db);
    await keep("INV-1");
    await keep("INV-2", { amountUsd: "80", replaces: "INV-1" });
    await keep("INV-3", { amountUsd: "90", replaces: "INV-2" });
    expect(await invoiced()).toEqual([["2026-01", "90"]]);
  });

  test("a correction of an invoice that was already replaced conflicts, and the error names the existing replacement", async ({
    db,
  }) => {
    const { keep, invoiced } = await books(db);
    await keep("INV-1");
    const first = await keep("INV-2", { amountUsd: "80", replaces: "INV-1" });
    expect(await keep("INV-3", { amountUsd: "70", replaces: "INV-1" })).toEqual({
      refused: "invoice_conflict",
      id: first.id,
      differs: ["replaces"],
      param: "replaces",
      message: "INV-1 is already replaced by INV-2. Replace that one instead.",
    });
    expect(await invoiced()).toEqual([["2026-01", "80"]]);
    expect(await keep("INV-2", { amountUsd: "80", replaces: "INV-1" })).toEqual({ outcome: "unchanged", id: first.id });
    expect(await keep("INV-2", { amountUsd: "80" })).toMatchObject({
      refused: "invoice_conflict",
      differs: ["replaces"],
    });
  });

  test.for([
    ["an unrecorded reference", "INV-9", {}],
    ["itself", "INV-2", {}],
    ["another account's reference", "INV-1", { accountId: "acct-2" }],
    ["another provider's reference", "INV-1", { provider: "azure" }],
  ] as const)("a corrected invoice cannot replace %s", async ([, replaces, changes], { db }) => {
    const { keep, review } = await books(db);
    await keep("INV-1");
    const why = {
      param: "replaces",
      message: "No recorded invoice or credit note of this app, provider and account has this reference.",
    };
    expect(await review("INV-2", { replaces, ...changes })).toEqual({ outcome: "cannot_replace", ...why });
    expect(await keep("INV-2", { replaces, ...changes })).toEqual({ refused: "invalid_request", ...why });
  });

  test("an invoice can't replace a credit note, and a credit note can't replace an invoice", async ({ db }) => {
    const { keep, review } = await books(db);
    await keep("INV-1");
    await keep("CN-1", { kind: "credit_note" });
    expect(await review("INV-2", { replaces: "CN-1" })).toMatchObject({ outcome: "cannot_replace", param: "kind" });
    expect(await keep("INV-2", { replaces: "CN-1" })).toMatchObject({ refused: "invalid_request", param: "kind" });
    expect(await keep("CN-2", { replaces: "INV-1", kind: "credit_note" })).toMatchObject({ param: "kind" });
    expect(await keep("CN-3", { replaces: "CN-1", kind: "credit_note" })).toMatchObject({ outcome: "stored" });
  });

  test("an invoice review refuses to replace an already replaced invoice, but accepts the existing replacement again", async ({
    db,
  }) => {
    const { keep, review } = await books(db);
    await keep("INV-1");
    const { id } = await keep("INV-2", { amountUsd: "80", replaces: "INV-1" });
    expect(await review("INV-3", { replaces: "INV-1" })).toEqual({
      outcome: "cannot_replace",
      param: "replaces",
      message: "INV-1 is already replaced by INV-2. Replace that one instead.",
    });
    expect(await review("INV-2", { amountUsd: "80", replaces: "INV-1" })).toMatchObject({ kept: { id }, differs: [] });
  });

  test("the review of a corrected invoice leaves out the invoice that it replaces", async ({ db }) => {
    const { keep, review } = await books(db);
    await keep("INV-1");
    await keep("INV-2", { amountUsd: "5" });
    const { comparison } = await review("INV-3", { amountUsd: "80", replaces: "INV-1" });
    expect(comparison).toMatchObject({ otherInvoices: 1, otherInvoicesUsd: "5", importedDifferenceUsd: "85" });
  });

  test("the comparison of a corrected invoice includes another app's invoice that has the same reference as the replaced invoice", async ({
    db,
  }) => {
    const { keep, keepForAnotherApp, read, review } = await books(db);
    await keep("INV-1");
    await keepForAnotherApp("INV-1", { amountUsd: "7" });
    const counted = { otherInvoices: 1, otherInvoicesUsd: "7", importedDifferenceUsd: "87" };
    expect((await review("INV-2", { amountUsd: "80", replaces: "INV-1" })).comparison).toMatchObject(counted);
    const { id } = await keep("INV-2", { amountUsd: "80", replaces: "INV-1" });
    expect((await read(id)).comparison).toMatchObject(counted);
  });

  test("the comparison on a replaced invoice's page counts the replacement invoice", async ({ db }) => {
    const { keep, read, cost } = await books(db);
    const { id } = await keep("INV-1");
    await cost({ amountUsd: "79" });
    expect((await read(id)).comparison).toMatchObject({ importedDifferenceUsd: "21" });
    await keep("INV-2", { amountUsd: "80", replaces: "INV-1" });
    expect((await read(id)).comparison).toMatchObject({
      otherInvoices: 1,
      otherInvoicesUsd: "80",
      importedDifferenceUsd: "1",
    });
  });
});

test("a credit note's amount is positive, and is subtracted", async ({ db }) => {
  const { keep, list, invoiced } = await books(db);
  await keep("INV-1");
  await keep("CN-1", { kind: "credit_note", amountUsd: "0.000000000001" });
  expect(await invoiced()).toEqual([["2026-01", "99.999999999999"]]);
  expect((await list()).totals.amountUsd).toBe("99.999999999999");
});

describe("an invoice for several months", () => {
  test("an invoice for several months is spread evenly over its days, to the last digit", async ({ db }) => {
    const { keep, list, invoiced } = await books(db);
    // January, February and March have 31, 28 and 31 of the 90 days.
    await keep("INV-1", { periodEnd: "2026-03-31", issuedOn: "2026-01-01", reviewedAt: "2026-01-02T00:00:00Z" });
    const months = await invoiced();
    expect(months).toEqual([
      ["2026-03", "34.444444444444"],
      ["2026-02", "31.111111111112"],
      ["2026-01", "34.444444444444"],
    ]);
    expect((await list({ month: "2026-02" })).totals).toEqual({
      amountUsd: "31.111111111112",
      records: 1,
      replacedRecords: 0,
    });
    expect((await list({ month: "2026-04" })).totals).toEqual({ amountUsd: "0", records: 0, replacedRecords: 0 });
  });

  test("an invoice's shares in adjacent time ranges add up to the invoice's amount", async ({ db }) => {
    const { keep, invoiced } = await books(db);
    await keep("INV-1", { amountUsd: "10", periodStart: "2026-01-01", periodEnd: "2026-01-03" });
    expect(await invoiced("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")).toEqual([["2026-01", "3.333333333333"]]);
    expect(await invoiced("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")).toEqual([["2026-01", "3.333333333334"]]);
    expect(await invoiced("2026-01-03T00:00:00Z", "2026-02-01T00:00:00Z")).toEqual([["2026-01", "3.333333333333"]]);
    // A day counts in the range in which it begins.
    expect(await invoiced("2026-01-01T00:00:00.000001Z", "2026-01-02T00:00:00.000001Z")).toEqual([
      ["2026-01", "3.333333333334"],
    ]);
  });
});

describe("imported costs of an account for a day", () => {
  test.for([
    [
      ["tokens", "10"],
      ["storage", "5"],
      [null, "15"],
    ],
    [
      [null, "15"],
      ["tokens", "10"],
      ["storage", "5"],
    ],
  ] as const)(
    "an account's total for a day replaces its service costs if the costs are imported in the order %j, %j, %j",
    async (records, { db }) => {
      const { cost, costs } = await books(db);
      await cost({ granularity: "run", occurredAt: "2026-01-02T10:00:00Z", amountUsd: "4" });
      for (const [service, amountUsd] of records) await cost({ service, amountUsd });
      const { totals, records: listed } = await costs();
      expect(totals).toEqual({ amountUsd: "15", records: 4, replacedRecords: 3, replacedUsd: "19" });
      const total = listed.find((record: { counted: boolean }) => record.counted);
      expect(total).toMatchObject({ service: null, replaces: { records: 3, amountUsd: "19" } });
      for (const record of listed) {
        if (record !== total) expect(record.replacedBy).toBe(total.externalRunId);
      }
    },
  );

  test("if an account has no daily total, its service costs are counted", async ({ db }) => {
    const { cost, costs } = await books(db);
    await cost({ service: "tokens", amountUsd: "10" });
    await cost({ service: "storage", amountUsd: "5" });
    await cost({ service: "storage", amountUsd: "6", observedAt: "2026-01-04T00:00:00Z" });
    const { totals, records } = await costs();
    expect(totals).toMatchObject({ amountUsd: "16", replacedRecords: 1 });
    expect(records.find(({ amountUsd }: { amountUsd: string }) => amountUsd === "6").replaces).toEqual({
      records: 1,
      amountUsd: "5",
    });
  });

  test("the daily total of a provider account shows the number and the sum of the records that it replaces", async ({
    db,
  }) => {
    const { cost, costs } = await books(db);
    await cost({ amountUsd: "14" });
    await cost({ service: "tokens", amountUsd: "10" });
    await cost({ amountUsd: "15", observedAt: "2026-01-04T00:00:00Z" });
    const { totals, records } = await costs();
    expect(totals).toEqual({ amountUsd: "15", records: 3, replacedRecords: 2, replacedUsd: "24" });
    const total = records.find((record: { counted: boolean }) => record.counted);
    expect(total.replaces).toEqual({ records: 2, amountUsd: "24" });
  });
});

describe("a cost reported again with the same observation time", () => {
  const first = { externalRunId: "day-1", amountUsd: "1", service: "tokens" };
  test("a cost reported again with the same observation time and values is unchanged", async ({ db }) => {
    const { cost } = await books(db);
    await cost(first);
    expect(await cost(first)).toEqual({ outcome: "unchanged" });
    expect(await cost({ ...first, amountUsd: "1.0" })).toEqual({ outcome: "unchanged" });
  });

  test.for([
    { amountUsd: "2" },
    { occurredAt: "2026-01-01T00:00:00Z" },
    { service: "storage" },
    { service: undefined },
    { granularity: "run" },
    { granularity: undefined },
  ])("a cost reported again with the same observation time conflicts if it has %j", async (changes, { db }) => {
    const { cost } = await books(db);
    await cost(first);
    expect(await cost({ ...first, ...changes })).toEqual({ refused: "cost_conflict" });
  });
});
