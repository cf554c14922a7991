import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, type Tenant } from "./fixtures.ts";

/** Creates a tenant whose model reads at most 1,000 tokens, at simple prices per million. */
async function createWindowed(db: Database, options: Parameters<typeof createTenant>[1] = {}): Promise<Tenant> {
  const tenant = await createTenant(db, { credits: "1000000", ...options });
  await db.query("update ai.models set context_window = 1000, output_limit = 32768 where id = $1", [tenant.model]);
  await db.query("delete from ai.model_prices where model_id = $1", [tenant.model]);
  await db.query(
    `insert into ai.model_prices (
       model_id, provider_id, input_usd_per_million, cache_write_usd_per_million, cache_write_1h_usd_per_million,
       output_usd_per_million, request_fee_usd
     ) values ($1, 'demo', 3, 3.75, 6, 15, 0.01)`,
    [tenant.model],
  );
  return tenant;
}

const reserved = async (db: Database, call: object) => Number((await begin(db, call)).reserved_usd);
// 100 input tokens at most, 100 output tokens, and the fee of one request.
const rest = 100 * 15e-6 + 0.01;

describe("the reservation of a call", () => {
  test("has the price of one-hour cache writes only if the request may cache for an hour", async ({ db }) => {
    const tenant = await createWindowed(db);
    expect(await reserved(db, chatCall(tenant, { hour_writes: false }))).toBeCloseTo(100 * 3.75e-6 + rest, 10);
    expect(await reserved(db, chatCall(tenant, { hour_writes: true }))).toBeCloseTo(100 * 6e-6 + rest, 10);
  });

  test.for<[number, number, number]>([
    [3_000, 1, 1_000],
    [3_003, 1, 1_000],
    [900_000, 1, 1_000],
    [900_000, 9, 9_000],
    [9_000, 9, 3_000],
  ])("of %i bytes read %i times counts %i tokens", async ([input_bytes, input_reads, tokens], { db }) => {
    const tenant = await createWindowed(db);
    const call = chatCall(tenant, { input_bytes, input_reads, hour_writes: false });
    expect(await reserved(db, call)).toBeCloseTo(tokens * 3.75e-6 + rest, 10);
  });

  // Otherwise a web search with default limits, of 150,000 tokens, is above the limits of many keys.
  test.for([
    [200, 6, null],
    [199, 6, { refused: "invalid_request", token_limit: { limit: 199, input: 100, counted: 200 } }],
    [200, 1, { refused: "invalid_request", token_limit: { limit: 200, input: 600, counted: 700 } }],
  ] as const)(
    "counts one reading toward a token limit of %i if the input is read %i times, but its price each time",
    async ([tokensPerMinute, input_reads, refusal], { db }) => {
      const tenant = await createWindowed(db, { key: { tokensPerMinute } });
      const call = chatCall(tenant, { input_bytes: 3 * 600, input_reads, hour_writes: false });
      const reservation = await begin(db, call);
      if (refusal) {
        expect(reservation).toMatchObject(refusal);
        return;
      }
      expect(Number(reservation.reserved_usd)).toBeCloseTo(600 * 3.75e-6 + rest, 10);
      const window = await one(db, {
        sql: `select w.tokens::int from ai.rate_windows w
              join ai.keys k on k.lineage_id = w.subject_id
              where w.scope = 'key' and k.id = $1`,
        values: [tenant.keyId],
      });
      expect(window).toEqual({ tokens: 200 });
    },
  );

  test("leaves room in the context window for the expected input if its maximum is far larger", async ({ db }) => {
    const tenant = await createWindowed(db);
    await db.query("update ai.models set context_window = 400000 where id = $1", [tenant.model]);
    const call = { output_limit: 32_768, output_limit_assumed: true, input_bytes: 3 * 390_000, input_reads: 1 };
    expect(await begin(db, chatCall(tenant, call))).toMatchObject({ output_limit: 10_000 });
    expect(await begin(db, chatCall(tenant, { ...call, expected_tokens: 150_000 }))).toMatchObject({
      output_limit: 32_768,
    });
    expect(await begin(db, chatCall(tenant, { ...call, expected_tokens: 500_000 }))).toMatchObject({
      output_limit: 10_000,
    });
  });
});

describe("a free call", () => {
  const free = { is_free: true, input_bytes: 0, output_limit: 0 };

  test("reserves nothing, and no budget or balance refuses it", async ({ db }) => {
    const tenant = await createWindowed(db);
    await db.query(
      `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd, spent_usd, period_start)
       values ('workspace', $1, $1, 0, 5, date_trunc('month', now() at time zone 'UTC'))`,
      [tenant.workspaceId],
    );
    await db.query("update ai.credit_accounts set balance = -1 where workspace_id = $1", [tenant.workspaceId]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "budget_exceeded" });
    expect(await begin(db, chatCall(tenant, free))).toMatchObject({ reserved_usd: "0.000000000000" });
    const budget = await one(db, {
      sql: "select reserved_usd::float as reserved from ai.budgets where subject_id = $1",
      values: [tenant.workspaceId],
    });
    expect(budget).toEqual({ reserved: 0 });
  });

  test("is counted against a request limit", async ({ db }) => {
    const tenant = await createWindowed(db, { key: { requestsPerMinute: 1 } });
    expect(await begin(db, chatCall(tenant, free))).toMatchObject({ reserved_usd: "0.000000000000" });
    expect(await begin(db, chatCall(tenant, free))).toMatchObject({ refused: "rate_limit_exceeded" });
  });
});
