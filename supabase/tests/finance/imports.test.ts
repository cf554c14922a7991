import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";

const ids = { workspace_id: randomUUID(), app_id: randomUUID() };
const cost = {
  ...ids,
  provider: "openai",
  external_run_id: "run-1",
  amount_usd: "0.5",
  occurred_at: "2026-01-02T03:04:05Z",
  observed_at: "2026-01-02T03:04:05Z",
};
const invoice = {
  ...ids,
  provider: "openai",
  reference: "INV-1",
  amount_usd: "12.5",
  issued_on: "2026-01-31",
  reviewed_at: "2026-02-01T00:00:00Z",
};

/**
 * Inserts a row.
 * @returns the SQLSTATE if the row was refused
 */
async function insert(db: Database, table: string, row: Record<string, unknown>): Promise<string | undefined> {
  const columns = Object.keys(row);
  await db.query("savepoint attempt");
  try {
    await db.query(
      `insert into ai.${table} (${columns.join(", ")}) values (${columns.map((_, n) => `$${n + 1}`).join(", ")})`,
      Object.values(row),
    );
    await db.query("release attempt");
    return undefined;
  } catch (error) {
    await db.query("rollback to attempt");
    return (error as { code: string }).code;
  }
}

const checkViolation = "23514";
const uniqueViolation = "23505";

describe("imported costs", () => {
  test("imported costs are unique per workspace, app, provider, run and account, even if the account is missing", async ({
    db,
  }) => {
    const add = (changes: object) => insert(db, "external_provider_costs", { ...cost, ...changes });
    expect(await add({})).toBeUndefined();
    expect(await add({ amount_usd: "0.6" })).toBe(uniqueViolation);
    expect(await add({ account_id: "a" })).toBeUndefined();
    expect(await add({ account_id: "a" })).toBe(uniqueViolation);
    for (const other of [
      { provider: "other" },
      { external_run_id: "run-2" },
      { app_id: randomUUID() },
      { workspace_id: randomUUID() },
    ]) {
      expect(await add(other)).toBeUndefined();
    }
  });

  test.for([
    [{ amount_usd: "0" }, { amount_usd: "-0.000000000001" }],
    [{ observed_at: cost.occurred_at }, { observed_at: "2026-01-02T03:04:04.999Z" }],
    [{ provider: "A-z.0_9:" }, { provider: "a/b" }],
    [{ provider: "x".repeat(128) }, { provider: "x".repeat(129) }],
    ...["account_id", "external_run_id", "service"].flatMap((column) => [
      // Ids are stored as providers write them: an ARN, a GCP billing account, an Azure scope, or a display name.
      [{ [column]: "arn:aws:bedrock:us-east-1:123456789012:inference-profile/eu.anthropic.claude" }, { [column]: "" }],
      [{ [column]: "/subscriptions/0000/resourceGroups/Größe (EU) & Co" }, { [column]: "a\nb" }],
      [{ [column]: "Vertrieb 東京" }, { [column]: " a" }],
      [{ [column]: "x".repeat(256) }, { [column]: "x".repeat(257) }],
      [{ [column]: "😀".repeat(256) }, { [column]: "a " }],
    ]),
    [
      {
        granularity: "account_day",
        account_id: "a",
        occurred_at: "2026-01-02T00:00:00Z",
        amount_usd: "-0.000000000001",
      },
      { granularity: "run", account_id: "a", occurred_at: "2026-01-02T00:00:00Z", amount_usd: "-0.000000000001" },
    ],
    [{ import_id: "00000000-0000-4000-8000-000000000001", original: "[]" }, { original: "[]" }],
    [
      { granularity: "account_day", account_id: "a", occurred_at: "2026-01-02T00:00:00Z" },
      { granularity: "account_day", account_id: "a", occurred_at: "2026-01-02T00:00:00.000001Z" },
    ],
    [
      { granularity: "account_day", account_id: "a", occurred_at: "2026-01-02T00:00:00Z" },
      { granularity: "account_day", occurred_at: "2026-01-02T00:00:00Z" },
    ],
    [
      { granularity: "account_day", account_id: "a", occurred_at: "2026-01-02T01:00:00+01:00" },
      { granularity: "account_day", account_id: "a", occurred_at: "2026-01-02T00:00:00+01:00" },
    ],
  ] as [object, object][])("imported costs accept %j, and refuse %j", async ([inside, outside], { db }) => {
    // Days begin at midnight UTC in any time zone of the session.
    await db.query("set local timezone = 'America/New_York'");
    expect(await insert(db, "external_provider_costs", { ...cost, ...inside })).toBeUndefined();
    expect(await insert(db, "external_provider_costs", { ...cost, external_run_id: "other", ...outside })).toBe(
      checkViolation,
    );
  });

  test("imported costs may be observed at most five minutes in the future", async ({ db }) => {
    const at = async (seconds: number) => {
      const [row] = await db.query<{ at: string }>("select (now() + $1 * interval '1 second')::text as at", [seconds]);
      return row?.at;
    };
    const add = async (seconds: number) =>
      insert(db, "external_provider_costs", {
        ...cost,
        external_run_id: `in-${seconds}`,
        observed_at: await at(seconds),
      });
    expect(await add(300)).toBeUndefined();
    expect(await add(301)).toBe(checkViolation);
  });
});

describe("imported invoices", () => {
  test("imported invoices are unique per reference, and immutable", async ({ db }) => {
    const add = (changes: object) => insert(db, "external_provider_invoices", { ...invoice, ...changes });
    expect(await add({})).toBeUndefined();
    expect(await add({ amount_usd: "13" })).toBe(uniqueViolation);
    expect(await add({ account_id: "a" })).toBeUndefined();
    for (const sql of [
      "update ai.external_provider_invoices set amount_usd = 0",
      "delete from ai.external_provider_invoices",
    ]) {
      await db.query("savepoint attempt");
      await expect(db.query(sql)).rejects.toMatchObject({ code: "23001" });
      await db.query("rollback to attempt");
    }
  });

  test.for([
    { amount_usd: "-1" },
    { reviewed_at: "2026-01-30T23:59:59Z" },
    { reviewed_at: "2999-01-01T00:00:00Z" },
    { period_start: "2026-02-01", period_end: "2026-01-01" },
    { reference: " a" },
    { reference: "a\tb" },
    { reference: "x".repeat(257) },
  ])("refuses imported invoices with %j", async (changes, { db }) => {
    expect(await insert(db, "external_provider_invoices", { ...invoice, ...changes })).toBe(checkViolation);
  });

  test("imported invoices may be reviewed on the day they were issued", async ({ db }) => {
    const sameDay = { ...invoice, reviewed_at: "2026-01-31T00:00:00Z" };
    expect(await insert(db, "external_provider_invoices", sameDay)).toBeUndefined();
  });
});
