import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test as pooled } from "vitest";
import { type Database, test } from "../database.ts";
import { appTokenCall, bindKey } from "../gateway/call-fixtures.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

type Result = { outcome?: string; refused?: string; param?: string };
type Answer = { results: Result[]; refused?: string };

const costOf = (changes: object = {}) => ({
  provider: "openai",
  externalRunId: "run-1",
  amountUsd: "0.5",
  occurredAt: "2026-01-02T03:04:05Z",
  observedAt: "2026-01-02T03:04:06Z",
  ...changes,
});
const callOf = ({ keyHash, workspaceId }: Tenant) => ({
  credential: { source: "key", hash: keyHash },
  workspace: workspaceId,
});

async function importCosts(db: Database, call: object, records: object[]): Promise<Answer> {
  const [row] = await db.query<{ answer: Answer }>("select ai.import_provider_costs($1) as answer", [
    JSON.stringify({ ...call, records }),
  ]);
  return row?.answer ?? { results: [] };
}

describe("ai.import_provider_costs", () => {
  test("accepts cost imports from app tokens and app-bound keys, but only for their own workspace", async ({ db }) => {
    const tenant = await createTenant(db);
    const unbound = await importCosts(db, callOf(tenant), [costOf()]);
    expect(unbound).toEqual({ refused: "credential_not_bound" });
    await bindKey(db, tenant);
    expect((await importCosts(db, callOf(tenant), [costOf()])).results).toEqual([{ outcome: "stored" }]);
    const { workspace: _, ...nameless } = callOf(tenant);
    expect(await importCosts(db, nameless, [costOf()])).toEqual({ refused: "workspace_header_required" });
    const elsewhere = { ...callOf(tenant), workspace: randomUUID() };
    expect(await importCosts(db, elsewhere, [costOf()])).toEqual({ refused: "workspace_mismatch" });
    const { callOf: tokenCall } = await appTokenCall(db, tenant);
    // Records with the same id from different apps are separate records.
    expect((await importCosts(db, tokenCall(), [costOf()])).results).toEqual([{ outcome: "stored" }]);
  });

  test("the gateway's role can call the import function, but can't write to the table directly", async ({ db }) => {
    const tenant = await createTenant(db);
    await bindKey(db, tenant);
    const answer = await db.asRole("gateway", () => importCosts(db, callOf(tenant), [costOf()]));
    expect(answer.results).toEqual([{ outcome: "stored" }]);
    for (const role of ["gateway", "service_role"] as const) {
      const write = () => db.asRole(role, () => db.query("delete from ai.external_provider_costs"));
      await expect(write()).rejects.toMatchObject({ code: "42501" });
    }
  });

  test("a cost without an account is distinct from the same cost with an account", async ({ db }) => {
    const tenant = await createTenant(db);
    await bindKey(db, tenant);
    const { results } = await importCosts(db, callOf(tenant), [
      costOf(),
      costOf({ amountUsd: "0.6" }),
      costOf({ accountId: "a", amountUsd: "0.6" }),
      costOf({ accountId: "b", amountUsd: "0.7" }),
    ]);
    expect(results.map(({ outcome, refused }) => outcome ?? refused)).toEqual([
      "stored",
      "cost_conflict",
      "stored",
      "stored",
    ]);
  });

  test("accepts observations at most five minutes in the future", async ({ db }) => {
    const tenant = await createTenant(db);
    await bindKey(db, tenant);
    const inSeconds = async (seconds: string) => {
      const [row] = await db.query<{ at: string }>(
        `select to_char((now() + $1::interval) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
        [seconds],
      );
      return costOf({ observedAt: row?.at, externalRunId: `in-${seconds.replaceAll(" ", "")}` });
    };
    const records = [await inSeconds("300 s"), await inSeconds("300.000001 s")];
    expect((await importCosts(db, callOf(tenant), records)).results).toMatchObject([
      { outcome: "stored" },
      { refused: "invalid_request", param: "observedAt" },
    ]);
  });
});

describe("functions whose tables are missing", () => {
  test.for([
    ["costs", "drop table ai.external_provider_costs cascade", "ai.import_provider_costs"],
    ["invoices", "drop table ai.external_provider_invoices cascade", "ai.import_provider_invoice"],
    ["sums", "drop table ai.usage_progress cascade", "ai.report_usage"],
  ] as const)(
    "a missing table for %s raises an error that makes the gateway answer 503",
    async ([, sql, name], { db }) => {
      const tenant = await createTenant(db);
      await bindKey(db, tenant);
      await db.query(sql);
      const call = {
        ...callOf(tenant),
        records: [costOf()],
        record: costOf({ issuedOn: "2026-01-01", reviewedAt: "2026-01-02T00:00:00Z" }),
      };
      await expect(db.query(`select ${name}($1)`, [JSON.stringify(call)])).rejects.toMatchObject({
        // 42P01 is undefined_table. The function raises 42704 (undefined_object) if it has a variable of the table's
        // row type, and 42883 (undefined_function) if it reads the table's view.
        code: expect.stringMatching(/^42(P01|704|883)$/),
      });
    },
  );
});

const pool = openPool(25);
afterAll(pool.close);
/**
 * Ignores the requested role, because a pool can't switch roles. The pool's role has all rights of the service role.
 */
const shared: Database = { ...pool.db, asRole: (_, work) => work() };

async function boundTenant(): Promise<Tenant> {
  const tenant = await createTenant(shared);
  await bindKey(shared, tenant);
  return tenant;
}

pooled("50 concurrent imports of one record, in mixed order of observation, end in the newest", async () => {
  const tenant = await boundTenant();
  const observations = Array.from({ length: 50 }, (_, n) =>
    costOf({ amountUsd: String(n), observedAt: `2026-01-02T04:00:00.${String(n).padStart(2, "0")}Z` }),
  );
  const mixed = observations.map((_, n) => observations[(n * 37) % 50] ?? costOf());
  const answers = await Promise.all(mixed.map((record) => importCosts(shared, callOf(tenant), [record])));
  const outcomes = answers.map(({ results }) => results[0]?.outcome);
  expect(outcomes.filter((outcome) => outcome === "stored")).toHaveLength(1);
  const written = outcomes.filter((outcome) => outcome !== "stale").length;
  const rows = await shared.query(
    `select amount_usd::int as amount, to_char(observed_at at time zone 'UTC', 'SS.US') as observed, revision
     from ai.external_provider_costs where workspace_id = $1`,
    [tenant.workspaceId],
  );
  expect(rows).toEqual([{ amount: 49, observed: "00.490000", revision: written }]);
});

pooled(
  "50 concurrent batches of the same records, in mixed order, wait for each other and end in the newest",
  async () => {
    const tenant = await boundTenant();
    const batches = Array.from({ length: 50 }, (_, n) =>
      Array.from({ length: 6 }, (_, record) =>
        costOf({
          externalRunId: `run-${(record * 5 + n) % 6}`,
          amountUsd: String(n),
          observedAt: `2026-01-02T04:00:00.${String(n).padStart(2, "0")}Z`,
        }),
      ),
    );
    await Promise.all(batches.map((records) => importCosts(shared, callOf(tenant), records)));
    const rows = await shared.query(
      "select amount_usd::int as amount from ai.external_provider_costs where workspace_id = $1",
      [tenant.workspaceId],
    );
    expect(rows).toEqual(Array(6).fill({ amount: 49 }));
  },
);

pooled(
  "50 concurrent entries of one invoice keep one, and the others learn which and what else is different",
  async () => {
    const tenant = await boundTenant();
    const [bound] = await shared.query<{ app: string; owner: string }>(
      `select k.external_app_id as app, m.user_id as owner
     from ai.keys k join public.workspace_members m on m.workspace_id = k.workspace_id where k.workspace_id = $1`,
      [tenant.workspaceId],
    );
    const record = { provider: "openai", reference: "INV-1", amountUsd: "0.000000000001", issuedOn: "2026-01-31" };
    const keep = async (changes: object) => {
      const [row] = await shared.query("select ai.record_provider_invoice($1, $2, $3, $4) as answer", [
        bound?.owner,
        tenant.workspaceId,
        bound?.app,
        JSON.stringify({ ...record, ...changes }),
      ]);
      return row?.answer;
    };
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => keep({ reviewedAt: `2026-02-01T00:00:00.${String(n).padStart(6, "0")}Z` })),
    );
    const stored = answers.filter(({ outcome }) => outcome === "stored");
    expect(stored).toHaveLength(1);
    const { id } = stored[0];
    const others = answers.filter(({ outcome }) => outcome !== "stored");
    expect(others).toEqual(others.map(() => ({ refused: "invoice_conflict", id, differs: ["reviewedAt"] })));
    const [kept] = await shared.query(
      "select to_char(reviewed_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') as at from ai.external_provider_invoices where id = $1",
      [id],
    );
    expect(await keep({ reviewedAt: kept?.at })).toEqual({ outcome: "unchanged", id });
    expect(await keep({ reviewedAt: kept?.at, amountUsd: "0.000000000002", periodEnd: "2026-01-31" })).toEqual({
      refused: "invoice_conflict",
      id,
      differs: ["amountUsd", "periodEnd"],
    });
  },
);

pooled("of 20 concurrent replacements of one invoice, one is kept", async () => {
  const tenant = await boundTenant();
  const [bound] = await shared.query<{ app: string; owner: string }>(
    `select k.external_app_id as app, m.user_id as owner
     from ai.keys k join public.workspace_members m on m.workspace_id = k.workspace_id where k.workspace_id = $1`,
    [tenant.workspaceId],
  );
  const keep = async (reference: string, changes: object = {}) => {
    const [row] = await shared.query("select ai.record_provider_invoice($1, $2, $3, $4) as answer", [
      bound?.owner,
      tenant.workspaceId,
      bound?.app,
      JSON.stringify({
        provider: "openai",
        reference,
        amountUsd: "1",
        issuedOn: "2026-01-31",
        reviewedAt: "2026-02-01T00:00:00Z",
        ...changes,
      }),
    ]);
    return row?.answer;
  };
  await keep("INV-1");
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => keep(`INV-1.${n}`, { replaces: "INV-1" })));
  const stored = answers.filter(({ outcome }) => outcome === "stored");
  expect(stored).toHaveLength(1);
  const others = answers.filter(({ outcome }) => outcome !== "stored");
  expect(others).toMatchObject(
    others.map(() => ({ refused: "invoice_conflict", id: stored[0].id, param: "replaces" })),
  );
});
