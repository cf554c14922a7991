import { describe, expect } from "vitest";
import { createUser, type Database, join, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import {
  addKey,
  begin,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  settle,
  type Tenant,
  type TenantOptions,
} from "./fixtures.ts";

type Expecting = OpenedRun & {
  expected_output?: number | null;
  limit?: { scope: string };
  need?: { usd: number; tokens?: number };
  fitting_output_limit?: number | null;
};

/** An output token costs a dollar, and input nothing. */
const prices = { input: "0", output: "1000000" };
const stream = { streamed: true, stoppable_providers: ["demo"] };

/** Creates a workspace whose budget of $20 reserves the expected cost, and a key with a budget that does not. */
async function createExpectingTenant(
  db: Database,
  { outputs, keyUsd = "1000", plan }: { outputs: number[]; keyUsd?: string; plan?: TenantOptions["plan"] },
) {
  const key = { monthlyBudgetUsd: keyUsd };
  const tenant = await createTenant(db, { credits: "100000000", prices, key, ...(plan ? { plan } : {}) });
  await db.query("select ai.set_budget('workspace', $1, $1, 20, reserves_expected => true)", [tenant.workspaceId]);
  await db.query(
    "insert into ai.output_histories (workspace_id, model_id, feature, outputs) values ($1, $2, 'chat', $3)",
    [tenant.workspaceId, tenant.model, outputs],
  );
  return tenant;
}

const beginCall = async (db: Database, tenant: Tenant, changes: object = {}) =>
  (await begin(db, chatCall(tenant, { output_limit: 15, ...stream, ...changes }))) as Expecting;

async function extend(db: Database, run: OpenedRun, changes: object) {
  const step = { created_at: run.created_at, id: run.run_id, ...changes };
  const row = await one(db, { sql: "select ai.extend_run($1) as answer", values: [JSON.stringify(step)] });
  return row.answer as object;
}

/** Returns what the budgets of the workspace and of the key have reserved and spent. */
async function readBudgets(db: Database, { workspaceId }: Tenant) {
  const rows = await db.query<{ scope: string; reserved: number; spent: number }>(
    `select scope, reserved_usd::float8 as reserved, spent_usd::float8 as spent from ai.budgets
     where workspace_id = $1 order by scope`,
    [workspaceId],
  );
  return Object.fromEntries(rows.map(({ scope, reserved, spent }) => [scope, [reserved, spent]]));
}

const readOutputs = async (db: Database, { workspaceId }: Tenant) =>
  db.query<{ feature: string; outputs: string[] }>(
    "select feature, outputs::int[] as outputs from ai.output_histories where workspace_id = $1 order by feature",
    [workspaceId],
  );

const twenty = (usual: number) => Array<number>(20).fill(usual);

describe("Reservations of the expected cost", () => {
  test("a budget reserves the output that 95% of the last runs had at most, and others the maximum", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: [...Array(19).fill(3), 9] });
    const run = await beginCall(db, tenant);
    expect(run.expected_output).toBe(3);
    expect(await readBudgets(db, tenant)).toEqual({ key: [15, 0], workspace: [3, 0] });
    await settle(db, [outcome(run, { usage: { input_tokens: 0, output_tokens: 2 } })]);
    expect(await readBudgets(db, tenant)).toEqual({ key: [0, 2], workspace: [0, 2] });
  });

  test("more calls are admitted than maximum costs fit, until a further one does not", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(5) });
    for (let calls = 1; calls <= 4; calls += 1) expect(await beginCall(db, tenant)).not.toHaveProperty("refused");
    expect(await beginCall(db, tenant)).toMatchObject({
      refused: "budget_exceeded",
      limit: { scope: "workspace" },
      need: { usd: 5, tokens: 5 },
      fitting_output_limit: null,
    });
  });

  test("the output limit that fits depends only on budgets that the call does not fit", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3), keyUsd: "29" });
    await db.query("select ai.set_budget('workspace', $1, $1, 10)", [tenant.workspaceId]);
    await beginCall(db, tenant);
    const { need, limit, fitting_output_limit: fits } = await beginCall(db, tenant);
    expect({ need, scope: limit?.scope, fits }).toEqual({ need: { usd: 15 }, scope: "key", fits: 14 });
    expect(await beginCall(db, tenant, { output_limit: 14 })).not.toHaveProperty("refused");
  });

  test("a budget that reserves the maximum cost refuses the call as before", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3), keyUsd: "14" });
    expect(await beginCall(db, tenant)).toMatchObject({
      refused: "budget_exceeded",
      limit: { scope: "key" },
      need: { usd: 15 },
    });
    expect(await readBudgets(db, tenant)).toEqual({ key: [0, 0], workspace: [0, 0] });
  });

  test.for<[string, object, number[]?]>([
    ["is not streamed", { streamed: undefined }],
    ["can't be stopped", { stoppable_providers: undefined }],
    ["has a route at another provider", { stoppable_providers: ["other"] }],
    ["is of another kind", { feature: "summary" }],
    ["has too few runs", {}, Array(19).fill(3)],
    ["has a usual output above its limit", { output_limit: 3 }],
  ])("a call reserves its maximum cost if it %s", async ([, changes, outputs], { db }) => {
    const tenant = await createExpectingTenant(db, { outputs: outputs ?? twenty(3) });
    const run = await beginCall(db, tenant, changes);
    expect(run.expected_output).toBeNull();
    const usd = Number(run.reserved_usd);
    expect(await readBudgets(db, tenant)).toEqual({ key: [usd, 0], workspace: [usd, 0] });
  });

  test("a history that is older than 30 days does not count", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3) });
    await db.query("update ai.output_histories set updated_at = now() - interval '31 days' where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    expect((await beginCall(db, tenant)).expected_output).toBeNull();
  });

  test("further output is reserved only in the budget that expected less, up to the maximum cost", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3) });
    const run = await beginCall(db, tenant);
    expect(await extend(db, run, { output: { from: 3, to: 7, limit: 15 } })).not.toHaveProperty("refused");
    expect(await readBudgets(db, tenant)).toEqual({ key: [15, 0], workspace: [7, 0] });
    await extend(db, run, { output: { from: 7, to: 99, limit: 15 } });
    expect(await readBudgets(db, tenant)).toEqual({ key: [15, 0], workspace: [15, 0] });
    await extend(db, run, { output: { from: 15, to: 20, limit: 15 } });
    expect(await readBudgets(db, tenant)).toEqual({ key: [15, 0], workspace: [15, 0] });
  });

  test("further output that doesn't fit is refused with the budget, also after the key was revoked", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3) });
    const [run] = [await beginCall(db, tenant), await beginCall(db, tenant), await beginCall(db, tenant)];
    await db.query("update ai.keys set revoked_at = now() where id = $1", [tenant.keyId]);
    expect(await extend(db, run, { output: { from: 3, to: 14, limit: 15 } })).not.toHaveProperty("refused");
    expect(await extend(db, run, { output: { from: 14, to: 15, limit: 15 } })).toMatchObject({
      refused: "budget_exceeded",
      limit: { kind: "budget", scope: "workspace", limit_usd: 20, remaining_usd: 0 },
      need: { usd: 1 },
    });
  });

  test("further output needs no place in rate windows, which counted the whole output", async ({ db }) => {
    // The call counts 100 tokens of input and 15 of output.
    const tenant = await createExpectingTenant(db, {
      outputs: twenty(3),
      plan: { requestsPerMinute: 1, tokensPerMinute: 115 },
    });
    const run = await beginCall(db, tenant);
    expect(await extend(db, run, { output: { from: 3, to: 7, limit: 15 } })).not.toHaveProperty("refused");
    expect(await readBudgets(db, tenant)).toEqual({ key: [15, 0], workspace: [7, 0] });
    const windows = await db.query("select requests, tokens::int from ai.rate_windows where subject_id = $1", [
      tenant.workspaceId,
    ]);
    expect(windows).toEqual([{ requests: 1, tokens: 115 }]);
  });

  test("a further step of a run reserves its maximum cost in every budget", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3) });
    const run = await beginCall(db, tenant);
    await extend(db, run, { input_bytes: 300, output_limit: 4 });
    expect(await readBudgets(db, tenant)).toEqual({ key: [19, 0], workspace: [7, 0] });
    await settle(db, [outcome(run, { usage: { input_tokens: 0, output_tokens: 6 } })]);
    expect(await readBudgets(db, tenant)).toEqual({ key: [0, 6], workspace: [0, 6] });
  });

  test("a budget that stops to expect less releases what its open runs reserve", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3) });
    const run = await beginCall(db, tenant);
    await db.query("select ai.set_budget('workspace', $1, $1, 20, reserves_expected => false)", [tenant.workspaceId]);
    const whole = await beginCall(db, tenant, { output_limit: 4 });
    expect(await readBudgets(db, tenant)).toMatchObject({ workspace: [7, 0] });
    await settle(db, [outcome(run, { usage_source: "unavailable" }), outcome(whole, { usage_source: "unavailable" })]);
    expect(await readBudgets(db, tenant)).toMatchObject({ workspace: [0, 0] });
  });
});

describe("Histories of output", () => {
  const used = (output_tokens: number, reasoning_tokens = 0) => ({
    usage: { input_tokens: 0, output_tokens, reasoning_tokens },
  });

  test("the last 100 succeeded runs of a kind count, and a run with reasoning begins again", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: Array(99).fill(3) });
    const calls: Expecting[] = [];
    for (let call = 0; call < 6; call += 1) calls.push(await beginCall(db, tenant, { output_limit: 1 }));
    const [first, second, failed, partial, other, reasoned] = calls;
    if (!first || !second || !failed || !partial || !other || !reasoned) throw new Error("a run is missing");
    await settle(db, [
      outcome(first, used(4)),
      outcome(second, used(5)),
      outcome(failed, { ...used(6), status: "failed" }),
      outcome(partial, { ...used(7), usage_source: "estimated_partial" }),
      outcome(other, used(0)),
    ]);
    const [{ feature, outputs } = { feature: "", outputs: [] }] = await readOutputs(db, tenant);
    // Runs of one moment have no order.
    expect({ feature, outputs: outputs.toSorted() }).toEqual({
      feature: "chat",
      outputs: [...Array(98).fill(3), 4, 5],
    });
    await settle(db, [outcome(reasoned, used(8, 1))]);
    expect(await readOutputs(db, tenant)).toEqual([{ feature: "chat", outputs: [] }]);
  });

  test("a report that can't be booked does not keep others from being settled", async ({ db }) => {
    const tenant = await createExpectingTenant(db, { outputs: twenty(3) });
    const run = await beginCall(db, tenant);
    const free = await createTenant(db, { credits: "100000000", prices });
    const whole = await beginCall(db, free);
    const changed = await settle(db, [outcome(run, { ...used(2), cost_usd: "-1" }), outcome(whole, used(2))]);
    expect(changed.map(({ id }) => id)).toEqual([whole.run_id]);
    expect(await readBudgets(db, tenant)).toEqual({ key: [15, 0], workspace: [3, 0] });
  });

  test("a workspace without such a budget records none", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100000000", prices, key: { monthlyBudgetUsd: "100" } });
    await settle(db, [outcome(await beginCall(db, tenant), used(3))]);
    expect(await readOutputs(db, tenant)).toEqual([]);
  });

  test.for([
    ["together", false],
    ["one by one, because a report is repeated", true],
  ] as const)(
    "settlements of several kinds in any order do not deadlock if they are booked %s",
    async ([, isRepeated]) => {
      const { db, close } = openPool(4);
      try {
        // Members who pay for themselves share nothing but the workspace's histories.
        const tenant = await createTenant(db, { prices, payer: "member" });
        const { workspaceId } = tenant;
        const keys: Awaited<ReturnType<typeof addKey>>[] = [];
        for (let member = 0; member < 4; member += 1) {
          const { id: userId } = await createUser(db);
          await join(db, { workspaceId, userId, role: "member" });
          await db.query("select ai.grant_credits('member', $1, 1e8, 'test')", [userId]);
          keys.push(await addKey(db, { workspaceId, ownerId: userId }, { monthlyBudgetUsd: "1000" }));
        }
        await db.query("update ai.budgets set reserves_expected = true where workspace_id = $1", [workspaceId]);
        const batches: object[][] = [];
        for (const [place, { hash }] of keys.entries()) {
          const runs: Expecting[] = [];
          for (let call = 0; call < 8; call += 1) {
            const feature = `kind-${place % 2 === 0 ? call % 4 : 3 - (call % 4)}`;
            runs.push(await beginCall(db, { ...tenant, keyHash: hash }, { output_limit: 1, feature }));
          }
          const outcomes = runs.map((run) => outcome(run, used(1)));
          batches.push(isRepeated ? [...outcomes, ...outcomes.slice(-1)] : outcomes);
        }
        await Promise.all(batches.map((batch) => settle(db, batch)));
        expect((await readOutputs(db, tenant)).map(({ outputs }) => outputs.length)).toEqual([8, 8, 8, 8]);
      } finally {
        await close();
      }
    },
  );
});
