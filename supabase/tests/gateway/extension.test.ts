import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { appTokenCall, bindKey } from "./call-fixtures.ts";
import { begin, books, chatCall, createTenant, limitsOf, type OpenedRun, outcome, settle } from "./fixtures.ts";

type Extended = OpenedRun & { reserved_usd: string };

/**
 * Calls `ai.extend_run` for 300 bytes and 100 output tokens. At $1 per million tokens, this reserves 2 credits before
 * markup.
 */
async function extend(db: Database, run: OpenedRun, changes: object = {}): Promise<Extended> {
  const step = { created_at: run.created_at, id: run.run_id, input_bytes: 300, output_limit: 100, ...changes };
  const row = await one(db, { sql: "select ai.extend_run($1) as answer", values: [JSON.stringify(step)] });
  return row.answer as Extended;
}

const prices = { input: "1", output: "1" };

describe("a further step of a run", () => {
  test("each further step of a run adds to the reservation, and the end of the run releases all of it", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100", markup: "1.2", prices });
    const run = await begin(db, chatCall(tenant));
    expect(run.reserved_credits).toBe("2.40000000");
    expect(await extend(db, run)).toEqual({ reserved_usd: "0.000400000000", reserved_credits: "4.80000000" });
    expect(await extend(db, run, { input_bytes: 600, images: 1 })).toEqual({
      reserved_usd: "0.002200000000",
      reserved_credits: "26.40000000",
    });
    expect(await books(db, tenant)).toMatchObject({ balance: "100.00000000", reserved: "26.40000000" });
    await settle(db, [outcome(run)]);
    expect(await books(db, tenant)).toMatchObject({ balance: "99.76000000", reserved: "0.00000000" });
  });

  test("admits a further step that reserves exactly the remaining balance, and refuses a larger one", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "4", prices });
    const run = await begin(db, chatCall(tenant));
    expect(await extend(db, run, { output_limit: 101 })).toMatchObject({ refused: "insufficient_credits" });
    expect(await extend(db, run)).not.toHaveProperty("refused");
    expect(await extend(db, run, { input_bytes: 1, output_limit: 0 })).toMatchObject({
      refused: "insufficient_credits",
    });
    expect(await books(db, tenant)).toMatchObject({ reserved: "4.00000000" });
  });

  test("a further step must fit within every budget, and a refused step reserves nothing in any of them", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "4", prices, key: { monthlyBudgetUsd: "1" } });
    const run = await begin(db, chatCall(tenant));
    const held = () =>
      one(db, {
        sql: "select reserved_usd::text as usd from ai.budgets where scope = 'key' and subject_id = $1",
        values: [tenant.keyId],
      });
    expect(await extend(db, run, { output_limit: 101 })).toMatchObject({ refused: "insufficient_credits" });
    expect(await held()).toEqual({ usd: "0.000200000000" });
    await db.query("update ai.budgets set limit_usd = 0.0003999 where subject_id = $1", [tenant.keyId]);
    expect(await extend(db, run)).toMatchObject({ refused: "budget_exceeded" });
    await db.query("update ai.budgets set limit_usd = 0.0004 where subject_id = $1", [tenant.keyId]);
    expect(await extend(db, run)).not.toHaveProperty("refused");
    expect(await held()).toEqual({ usd: "0.000400000000" });
    await settle(db, [outcome(run)]);
    expect(await held()).toEqual({ usd: "0.000000000000" });
  });

  test("a further step counts against the token limits, but not against the request limits", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "100",
      prices,
      key: { requestsPerMinute: 1, tokensPerMinute: 400 },
    });
    const run = await begin(db, chatCall(tenant));
    expect(await extend(db, run)).not.toHaveProperty("refused");
    const refused = await extend(db, run, { input_bytes: 1, output_limit: 0 });
    expect(refused).toMatchObject({ refused: "rate_limit_exceeded" });
    expect(limitsOf(refused)).toEqual({
      requests: { limit: 1, remaining: 0 },
      tokens: { limit: 400, remaining: 0 },
      resetSeconds: expect.any(Number),
    });
  });

  test("a request limit that is lowered below the requests of the minute refuses no further step", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", prices, key: { requestsPerMinute: 5 } });
    const run = await begin(db, chatCall(tenant));
    await begin(db, chatCall(tenant));
    await db.query("update ai.keys set requests_per_minute = 1 where id = $1", [tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "rate_limit_exceeded" });
    expect(await extend(db, run)).not.toHaveProperty("refused");
  });

  test.for([
    ["loses ai:use", "update private.apps set scopes = '{workspace:session}' where id = $1", "insufficient_scope"],
    ["is disabled", "update private.apps set enabled = false where id = $1", "app_not_allowed"],
    ["is unlinked", "delete from private.app_workspaces where app_id = $1", "app_not_allowed"],
  ] as const)(
    "after the run's app %s, a further step is refused both with a key bound to the app and with the app's token",
    async ([, change, refused], { db }) => {
      const [bound, held] = [await createTenant(db, { prices }), await createTenant(db, { prices })];
      const { id } = await bindKey(db, bound);
      const { app, callOf } = await appTokenCall(db, held);
      for (const [appId, call] of [
        [id, chatCall(bound)],
        [app.id, callOf()],
      ] as const) {
        const run = await begin(db, call);
        expect(await extend(db, run)).not.toHaveProperty("refused");
        await db.query(change, [appId]);
        expect(await extend(db, run)).toMatchObject({ refused });
      }
    },
  );

  test("a key that expires while its run is open does not end the run", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", prices });
    const run = await begin(db, chatCall(tenant));
    await db.query("update ai.keys set expires_at = now() where id = $1", [tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).toEqual({ refused: "invalid_api_key" });
    expect(await extend(db, run)).not.toHaveProperty("refused");
  });

  test("a further step is refused once the key is revoked or the run has ended", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", prices });
    const run = await begin(db, chatCall(tenant));
    await db.query("update ai.keys set revoked_at = now() where id = $1", [tenant.keyId]);
    expect(await extend(db, run)).toEqual({ refused: "invalid_api_key" });
    await settle(db, [outcome(run)]);
    expect(await extend(db, run)).toEqual({ refused: "service_unavailable" });
  });

  test("with a balance for 5 steps, exactly 5 of 50 concurrent callers get a further step", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await createTenant(db, { credits: "20", prices });
      const runs = await Promise.all(Array.from({ length: 5 }, () => begin(db, chatCall(tenant))));
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, n) => extend(db, runs[n % runs.length] as OpenedRun)),
      );
      expect(answers.filter(({ refused }) => !refused)).toHaveLength(5);
      expect(await books(db, tenant)).toMatchObject({ balance: "20.00000000", reserved: "20.00000000" });
      await settle(
        db,
        runs.map((run) => outcome(run)),
      );
      expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
    } finally {
      await close();
    }
  });
});
