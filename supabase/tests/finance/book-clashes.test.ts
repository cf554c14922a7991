import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { bindKey } from "../gateway/call-fixtures.ts";
import { createTenant } from "../gateway/fixtures.ts";

const newProvider = () => `p-${randomUUID().slice(0, 8)}`;

describe("cost records whose provider is spelled in two ways", () => {
  async function clashing(db: Database) {
    const provider = newProvider();
    const tenant = await createTenant(db);
    const { id: appId } = await bindKey(db, tenant);
    const add = (spelling: string, amountUsd: string, recordedAt: string, reference = "INV-1") =>
      db.query(
        `insert into ai.external_provider_invoices (
           workspace_id, app_id, provider, reference, amount_usd, issued_on, reviewed_at, recorded_at
         )
         values ($1, $2, $3, $6, $4, '2026-10-28', $5, $5)`,
        [tenant.workspaceId, appId, spelling, amountUsd, recordedAt, reference],
      );
    const ask = async (name: string, values: unknown[]) => {
      const all = [tenant.ownerId, tenant.workspaceId, ...values];
      const sql = `select ai.${name}(${all.map((_, place) => `$${place + 1}`).join(", ")}) as answer`;
      return (await one(db, { sql, values: all })).answer;
    };
    const keep = (record: object) =>
      ask("record_provider_invoice", [
        appId,
        JSON.stringify({
          provider,
          reference: "INV-1",
          amountUsd: "10",
          issuedOn: "2026-10-28",
          reviewedAt: "2026-10-29T00:00:00Z",
          ...record,
        }),
      ]);
    const reconcile = (from = "2026-10-01", to = "2026-11-01") => ask("reconcile_costs", [from, to]);
    const list = () => ask("list_provider_invoices", [null, 50, JSON.stringify({ provider })]);
    return { provider, add, keep, reconcile, list };
  }

  test("recording an invoice again under another spelling of its provider changes nothing, or is refused if the values differ", async ({
    db,
  }) => {
    const { provider, add, keep, list } = await clashing(db);
    await add(provider.toUpperCase(), "10", "2026-10-29T00:00:00Z");
    expect(await keep({})).toMatchObject({ outcome: "unchanged" });
    expect(await keep({ amountUsd: "11" })).toMatchObject({ refused: "invoice_conflict", differs: ["amountUsd"] });
    expect(await keep({ reference: "INV-2", amountUsd: "8", replaces: "INV-1" })).toMatchObject({ outcome: "stored" });
    expect(await keep({ reference: "INV-3", amountUsd: "7", replaces: "INV-1" })).toMatchObject({ param: "replaces" });
    const { totals, records } = await list();
    expect(totals).toEqual({ amountUsd: "8", records: 2, replacedRecords: 1 });
    expect(records.map((record: { provider: string }) => record.provider)).toEqual([provider, provider]);
  });

  test("if an invoice exists under two spellings of its provider, only the first record counts, and the clash is reported", async ({
    db,
  }) => {
    const { provider, add, reconcile, list } = await clashing(db);
    const upper = provider.toUpperCase();
    await add(provider, "10", "2026-10-30T00:00:00Z");
    await add(upper, "12", "2026-10-29T00:00:00Z");
    const { clashes, records } = await reconcile();
    expect(records).toMatchObject([{ provider, invoicedUsd: "12", invoices: 1 }]);
    expect(clashes).toEqual([
      { kind: "invoice", provider, spellings: [upper, provider], accountId: null, reference: "INV-1" },
    ]);
    expect((await list()).totals).toEqual({ amountUsd: "12", records: 2, replacedRecords: 1 });
    expect((await reconcile("2026-11-01", "2026-12-01")).clashes).toEqual([]);
  });

  test("a cost that exists under two spellings of its provider is reported as a clash", async ({ db }) => {
    const provider = newProvider();
    const tenant = await createTenant(db);
    const appId = randomUUID();
    for (const spelling of [provider, provider.toUpperCase()]) {
      await db.query(
        `insert into ai.external_provider_costs (
           workspace_id, app_id, provider, account_id, external_run_id, amount_usd, occurred_at, observed_at
         )
         values ($1, $2, $3, 'acct-1', 'run-1', 1, '2026-10-02T03:04:05Z', '2026-10-03T00:00:00Z')`,
        [tenant.workspaceId, appId, spelling],
      );
    }
    const sql = "select ai.reconcile_costs($1, $2, '2026-10-01', '2026-11-01') as answer";
    const { answer } = await one(db, { sql, values: [tenant.ownerId, tenant.workspaceId] });
    expect(answer.clashes).toEqual([
      {
        kind: "cost",
        provider,
        spellings: [provider.toUpperCase(), provider],
        accountId: "acct-1",
        externalRunId: "run-1",
      },
    ]);
  });

  test("reconciliation lists at most 100 records that exist under two spellings of the provider", async ({ db }) => {
    const { provider, add, reconcile } = await clashing(db);
    const addPair = async (reference: string) => {
      await add(provider, "1", "2026-10-29T00:00:00Z", reference);
      await add(provider.toUpperCase(), "1", "2026-10-30T00:00:00Z", reference);
    };
    for (let added = 0; added < 100; added += 1) await addPair(`INV-${added}`);
    expect((await reconcile()).clashes).toHaveLength(100);
    await addPair("INV-100");
    expect((await reconcile()).clashes).toHaveLength(100);
  });
});
