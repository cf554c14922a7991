import fc from "fast-check";
import { describe, expect } from "vitest";
import { pricingOf } from "../../../remix-app/studio/runs/pricing.ts";
import { randomCalls, randomRoutes } from "../../../remix-app/studio/runs/run-fixtures.ts";
import { runLedgerEntry, runSummary } from "../../../remix-app/studio/runs/run-schema.ts";
import { type ChargedCall, computeRunCost } from "../../functions/_shared/call-price.ts";
import { add, formatDecimal, parseDecimal } from "../../functions/_shared/decimal.ts";
import type { TokenCounts } from "../../functions/_shared/money.ts";
import { type Database, one, test } from "../database.ts";
import {
  abandon,
  begin,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  settle,
  type Tenant,
} from "../gateway/fixtures.ts";

const sum = (amounts: readonly string[]) =>
  formatDecimal(amounts.map(parseDecimal).reduce(add, { units: 0n, scale: 0 }));

async function read(db: Database, { ownerId, workspaceId }: Tenant, runId: string) {
  const { answer } = await db.asRole("service_role", () =>
    one<{ answer: { run: unknown; ledger: unknown[] } }>(db, {
      sql: "select ai.read_run($1, $2, $3) as answer",
      values: [ownerId, workspaceId, runId],
    }),
  );
  const run = runSummary.parse(answer.run);
  return { run, pricing: pricingOf(run), ledger: answer.ledger.map((entry) => runLedgerEntry.parse(entry)) };
}

/** Returns a run's cost and billed credits as stored in the database. */
const booked = (db: Database, { run_id }: OpenedRun) =>
  one<{ cost: string; billed: string; charged: string }>(db, {
    sql: `select trim_scale(r.cost_usd)::text as cost, trim_scale(r.billed_credits)::text as billed,
            (select trim_scale(coalesce(-sum(l.amount), 0))::text from ai.credit_ledger l where l.run_id = r.id) as charged
          from ai.runs r where r.id = $1`,
    values: [run_id],
  });

/** Returns the outcome of several calls as the gateway reports it. */
function outcomeOf(run: OpenedRun, calls: readonly ChargedCall[]): object {
  const total: Record<string, number> = {};
  for (const { usage } of calls) {
    for (const [name, count] of Object.entries(usage)) total[name] = (total[name] ?? 0) + count;
  }
  const attempt = { provider: "demo", model: "upstream", status: 200, latency_ms: 1 };
  return outcome(run, {
    ...computeRunCost(run, calls),
    usage: total as TokenCounts,
    route: calls.at(-1)?.route ?? 1,
    served_tier: calls.findLast(({ servedTier }) => servedTier !== undefined)?.servedTier,
    attempts: calls.map(({ route, usage, servedTier, statedCostUsd }) =>
      calls.length > 1
        ? { ...attempt, route, charged: { ...usage, served_tier: servedTier, stated_cost_usd: statedCostUsd } }
        : { ...attempt, route },
    ),
    ...computeRunCost(run, calls),
  });
}

describe("the cost lines of a run", () => {
  test("a run's cost lines add up to its cost, and their credits to its ledger entries, for random routes and calls", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000000", markup: "1.234567" });
    const samples = fc.sample(fc.tuple(randomRoutes, randomCalls), { numRuns: 60, seed: 7 });
    const runs: { run: OpenedRun; calls: readonly ChargedCall[] }[] = [];
    for (const [routes, calls] of samples) {
      const begun = await begin(db, chatCall(tenant));
      await db.query("update ai.runs set routes = $2 where id = $1", [begun.run_id, JSON.stringify(routes)]);
      runs.push({ run: { ...begun, routes: routes as unknown as OpenedRun["routes"] }, calls });
    }
    const settled = await settle(
      db,
      runs.map(({ run, calls }) => outcomeOf(run, calls)),
    );
    expect(settled).toHaveLength(samples.length);
    for (const { run, calls } of runs) {
      const { pricing, ledger } = await read(db, tenant, run.run_id);
      const { cost, billed, charged } = await booked(db, run);
      expect(sum(pricing.lines.flatMap(({ amountUsd }) => amountUsd ?? []))).toBe(cost);
      expect(pricing.costUsd).toBe(cost);
      expect(pricing.lines.some(({ item }) => item === "not_itemised")).toBe(false);
      expect([pricing.billedCredits, sum(ledger.map(({ credits }) => credits))]).toEqual([billed, charged]);
      expect(billed).toBe(charged);
      expect([pricing.markup, pricing.creditsPerUsd]).toEqual(["1.234567", "12345.67"]);
      expect(computeRunCost(run, calls).credits).toBe(billed);
    }
  });

  test("after a swept run is settled, its cost lines add up to its cost, and its two ledger entries add up to its charge", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await begin(db, chatCall(tenant, { idempotency_key: "once", fingerprint: "00".repeat(32) }));
    await db.query("select ai.heartbeat_runs($1)", [
      JSON.stringify([
        {
          created_at: run.created_at,
          id: run.run_id,
          route: 1,
          input_tokens: 9,
          output_tokens: 1,
          cost_usd: "0.00001",
        },
      ]),
    ]);
    const open = await read(db, tenant, run.run_id);
    expect(open.pricing).toMatchObject({
      reservedCredits: formatDecimal(parseDecimal(run.reserved_credits)),
      notes: ["running"],
    });
    await abandon(db, run);
    await db.query("select ai.sweep_runs()");
    const swept = await read(db, tenant, run.run_id);
    expect(swept.pricing.notes).toEqual(["estimated", "swept", "not_itemised", "repeats_free"]);
    expect(sum(swept.pricing.lines.flatMap(({ amountUsd }) => amountUsd ?? []))).toBe("0.00001");
    expect(swept.ledger).toMatchObject([{ kind: "usage", credits: "0.1" }]);
    await settle(db, [outcome(run)]);
    const corrected = await read(db, tenant, run.run_id);
    const { cost, billed, charged } = await booked(db, run);
    expect(corrected.pricing).toMatchObject({ costUsd: cost, billedCredits: billed, notes: ["repeats_free"] });
    expect(corrected.ledger.map(({ kind }) => kind)).toEqual(["usage", "adjustment"]);
    expect(sum(corrected.ledger.map(({ credits }) => credits))).toBe(charged);
    expect(sum(corrected.pricing.lines.flatMap(({ amountUsd }) => amountUsd ?? []))).toBe(cost);
  });

  test("a run that ended before a provider was called has no cost lines and is not billed", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000" });
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run, { status: "failed", usage_source: "unavailable", steps: [], key_unused: true })]);
    const { pricing, ledger } = await read(db, tenant, run.run_id);
    expect(pricing).toMatchObject({ lines: [], calls: [], costUsd: "0", billedCredits: "0", notes: ["not_called"] });
    expect(ledger).toEqual([]);
  });

  test("the cost lines of a run omit prices and markup if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000000", markup: "1.5" });
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run)]);
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const { run: shown, pricing } = await read(db, tenant, run.run_id);
    expect(pricing).toMatchObject({ calls: null, costUsd: null, markup: null, creditsPerUsd: null });
    expect(
      pricing.lines.map(({ item, count, unitPriceUsd, amountUsd }) => [item, count, unitPriceUsd, amountUsd]),
    ).toEqual([
      ["input", 13, null, null],
      ["output", 7, null, null],
    ]);
    expect(shown.provider).toBeNull();
    expect(JSON.stringify(shown)).not.toMatch(/upstream|0\.15|1\.5|15000/);
  });
});
