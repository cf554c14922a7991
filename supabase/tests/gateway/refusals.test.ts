import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { appTokenCall, bindKey, sessionCall } from "./call-fixtures.ts";
import { begin, chatCall, createTenant, type OpenedRun, type Tenant, type TenantOptions } from "./fixtures.ts";

type Explained = OpenedRun & {
  limit?: Record<string, unknown>;
  need?: Record<string, number>;
  fitting_output_limit?: number | null;
  missing?: object;
  similar_models?: string[];
};

const explain = async (db: Database, call: object) => (await begin(db, call)) as Explained;

async function extend(db: Database, run: OpenedRun, changes: object): Promise<Explained> {
  const step = { created_at: run.created_at, id: run.run_id, input_bytes: 300, output_limit: 100, ...changes };
  return (await one(db, { sql: "select ai.extend_run($1) as answer", values: [JSON.stringify(step)] })).answer as never;
}

/** Adds a second route, whose price rises with the context, and has another slope than the first. */
async function addSteps(db: Database, { model }: Tenant): Promise<void> {
  await db.query(
    `with route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 2, 'other', 'upstream')
     )
     insert into ai.model_prices
       (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million)
     values ($1, 'other', 0, 0.01, 2.5), ($1, 'other', 1000, 7.123456, 1.000001), ($1, 'other', 2000, 9.5, 31.7)`,
    [model],
  );
}

/** The field that states an output limit lengthens the input of a call that had none. */
const statedBytes = 48;
const providers = ["demo", "other"];

describe("the output limit that would fit", () => {
  // Each call with the limit that the refusal proposes is admitted, and with one token more is refused.
  const budgets: [string, TenantOptions, object][] = [
    ["a key's budget", { credits: "1000000", key: { monthlyBudgetUsd: "0.01" } }, {}],
    ["an odd budget", { credits: "1000000", key: { monthlyBudgetUsd: "0.010000000001" } }, {}],
    [
      "a budget that one price step reaches",
      { credits: "1000000", key: { monthlyBudgetUsd: "0.05" } },
      { input_bytes: 4_500 },
    ],
    [
      "a budget that two price steps reach",
      { credits: "1000000", key: { monthlyBudgetUsd: "0.123457" } },
      { input_bytes: 9_000 },
    ],
    ["a budget with three choices", { credits: "1000000", key: { monthlyBudgetUsd: "0.012345" } }, { choices: 3 }],
    ["a budget of images", { credits: "1000000", key: { monthlyBudgetUsd: "0.1" } }, { images: 2 }],
    ["a balance", { credits: "123.45678901" }, {}],
    ["a balance with a markup", { credits: "99.99999999", markup: "1.234567" }, {}],
    ["a balance with a small markup", { credits: "0.5", markup: "0.003" }, { input_bytes: 3 }],
    ["a key's tokens", { credits: "1000000", key: { tokensPerMinute: 31_000 } }, { choices: 3, output_limit: 10_000 }],
    ["a workspace's tokens", { credits: "1000000", plan: { tokensPerMinute: 30_100 } }, {}],
    [
      "a tight budget and tighter tokens",
      { credits: "1000000", key: { monthlyBudgetUsd: "0.075", tokensPerMinute: 30_100 } },
      {},
    ],
    ["a balance and a tighter budget", { credits: "130", key: { monthlyBudgetUsd: "0.0125" } }, {}],
  ];
  for (const assumed of [false, true]) {
    test.for(budgets)(
      `fits %s${assumed ? ", for a call that states no output limit" : ""}`,
      async ([, options, changes], { db }) => {
        const tenant = await createTenant(db, { prices: { input: "0.15", output: "0.6" }, ...options });
        await addSteps(db, tenant);
        await db.query("update ai.models set output_limit = 32000 where id = $1", [tenant.model]);
        // A call that is in progress holds a part of every limit.
        const first = await begin(
          db,
          chatCall(tenant, { providers, output_limit: 50, ...changes, choices: 1, images: 0 }),
        );
        expect(first).not.toHaveProperty("refused");
        const call = { providers, output_limit: 30_000, ...changes, output_limit_assumed: assumed || undefined };
        const refused = await explain(db, chatCall(tenant, call));
        if (assumed && refused.refused === undefined) return;
        expect(refused.limit).toBeDefined();
        const fits = refused.fitting_output_limit ?? 0;
        expect(fits).toBeGreaterThan(0);
        const { input_bytes = 300 } = changes as { input_bytes?: number };
        const stated = {
          ...call,
          input_bytes: input_bytes + (assumed ? statedBytes : 0),
          output_limit_assumed: undefined,
        };
        const more = await explain(db, chatCall(tenant, { ...stated, output_limit: fits + 1 }));
        expect(more.refused).toBeDefined();
        expect(more.fitting_output_limit).toBe(fits);
        expect(await begin(db, chatCall(tenant, { ...stated, output_limit: fits }))).not.toHaveProperty("refused");
      },
    );
  }

  test("is null if no output limit would fit, and absent for a call without output", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1", key: { monthlyBudgetUsd: "0.0000155" } });
    expect(await explain(db, chatCall(tenant))).toMatchObject({ fitting_output_limit: null });
    await db.query("update ai.models set kind = 'embedding' where id = $1", [tenant.model]);
    const embedding = await explain(db, chatCall(tenant, { kind: "embedding", output_limit: 0, input_bytes: 3_000 }));
    expect(embedding.refused).toBe("budget_exceeded");
    expect(embedding).not.toHaveProperty("fitting_output_limit");
  });

  test.for([
    ["a budget", { credits: "1000000", key: { monthlyBudgetUsd: "0.0004" } }],
    ["a balance", { credits: "4.567", markup: "1.1" }],
    ["tokens", { credits: "1000000", key: { tokensPerMinute: 700 } }],
    ["tokens and a budget", { credits: "1000000", key: { tokensPerMinute: 700, monthlyBudgetUsd: "0.0004" } }],
  ] as const)("fits %s for a further step of a run", async ([, options], { db }) => {
    const tenant = await createTenant(db, { prices: { input: "0.31", output: "1.27" }, ...options });
    const run = await begin(db, chatCall(tenant));
    const step = { input_bytes: 450, used_tokens: 150 };
    const refused = await extend(db, run, { ...step, output_limit: 540 });
    const fits = refused.fitting_output_limit ?? 0;
    expect(refused.limit).toBeDefined();
    expect(fits).toBeGreaterThan(0);
    expect(await extend(db, run, { ...step, output_limit: fits + 1 })).toMatchObject({ fitting_output_limit: fits });
    expect(await extend(db, run, { ...step, output_limit: fits })).not.toHaveProperty("refused");
  });

  test("fits a whole token limit, counts every choice, and is the model's own limit if that one is exceeded", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { tokensPerMinute: 2_000 } });
    const refused = await explain(db, chatCall(tenant, { output_limit: 1_000, choices: 3 }));
    expect(refused).toMatchObject({
      refused: "invalid_request",
      limit: { kind: "rate", scope: "key", name: "test", unit: "tokens", window: "minute", limit: 2_000 },
      need: { tokens: 3_100, input_tokens: 100 },
      fitting_output_limit: 633,
    });
    await db.query("update ai.models set output_limit = 500 where id = $1", [tenant.model]);
    expect(await explain(db, chatCall(tenant, { output_limit: 501 }))).toMatchObject({
      limit: { kind: "model_output", limit: 500 },
      need: { tokens: 501 },
      fitting_output_limit: 500,
    });
  });
});

describe("the limit that a refusal names", () => {
  const month = {
    window: "month",
    time_zone: "UTC",
    resets_at: expect.stringMatching(/^\d{4}-\d\d-01T00:00:00\.000Z$/),
  };
  const amounts = { limit_usd: 0.0001, spent_usd: 0, reserved_usd: 0, remaining_usd: 0.0001 };
  const setBudget = (db: Database, tenant: Tenant, scope: string, subject: string, label: string | null = null) =>
    db.query("select ai.set_budget($1, $2, $3, '0.0001', $4)", [scope, subject, tenant.workspaceId, label]);

  test("is the budget of a key, a member, a label, an app or the workspace, with its amounts", async ({ db }) => {
    const priced = { prices: { input: "1", output: "1" }, credits: "1000" };
    const keyed = await createTenant(db, { ...priced, key: { monthlyBudgetUsd: "0.0001" } });
    expect(await explain(db, chatCall(keyed))).toMatchObject({
      refused: "budget_exceeded",
      limit: { kind: "budget", scope: "key", name: "test", ...month, ...amounts },
      need: { usd: 0.0002 },
    });

    const membered = await createTenant(db, priced);
    await setBudget(db, membered, "member", membered.ownerId);
    const byKey = await explain(db, chatCall(membered));
    expect(byKey.limit).toMatchObject({ scope: "member", ...month, ...amounts });
    expect(byKey.limit).not.toHaveProperty("is_caller");

    const label = "customer:7";
    const labelled = await createTenant(db, { ...priced, key: { entityId: label } });
    const { id } = await one<{ id: string }>(db, { sql: "select ai.label_id($1) as id", values: [label] });
    await setBudget(db, labelled, "label", id, label);
    expect((await explain(db, chatCall(labelled))).limit).toMatchObject({ scope: "label", name: label, ...amounts });

    const bound = await createTenant(db, priced);
    const app = await bindKey(db, bound);
    await setBudget(db, bound, "app", app.id);
    const named = await one<{ name: string }>(db, {
      sql: "select display_name as name from private.apps where id = $1",
      values: [app.id],
    });
    expect((await explain(db, chatCall(bound))).limit).toMatchObject({ scope: "app", name: named.name, ...amounts });

    const whole = await createTenant(db, priced);
    await setBudget(db, whole, "workspace", whole.workspaceId);
    expect((await explain(db, chatCall(whole))).limit).toMatchObject({ scope: "workspace", ...amounts });
  });

  test("says that a member's budget and balance are the caller's own if a person calls", async ({ db }) => {
    const tenant = await createTenant(db, { payer: "member", prices: { input: "1", output: "1" } });
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "admin" });
    const balance = await explain(db, sessionCall(tenant, claims));
    expect(balance).toMatchObject({
      refused: "insufficient_credits",
      limit: { kind: "balance", payer: "member", is_caller: true, remaining_credits: 0 },
      need: { credits: 2 },
    });
    await db.query("select ai.set_budget('member', $1, $2, '0.0001')", [claims.sub, tenant.workspaceId]);
    expect((await explain(db, sessionCall(tenant, claims))).limit).toMatchObject({ scope: "member", is_caller: true });
  });

  test.for([
    ["the workspace hides costs", { payer: "workspace" }, false],
    ["another person pays for a key", { payer: "member" }, true],
  ] as const)("leaves out the balance if %s", async ([, options, visible], { db }) => {
    const tenant = await createTenant(db, { ...options, credits: "1", prices: { input: "1", output: "1" } });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, $2)", [
      tenant.workspaceId,
      visible,
    ]);
    const refused = await explain(db, chatCall(tenant));
    expect(refused.limit).toEqual({ kind: "balance", payer: options.payer });
    expect(refused).not.toHaveProperty("need");
    expect(refused).not.toHaveProperty("room");
  });

  test("proposes no output limit that tells what another person's balance has left", async ({ db }) => {
    const tenant = await createTenant(db, {
      payer: "member",
      credits: "10",
      key: { monthlyBudgetUsd: "0.002" },
      prices: { input: "1", output: "1" },
    });
    const call = chatCall(tenant, { output_limit: 5_000 });
    // The balance pays for 900 tokens of output, the budget for 1,900.
    const ofBudget = await explain(db, call);
    expect(ofBudget.limit).toMatchObject({ kind: "budget", scope: "key" });
    expect(ofBudget).not.toHaveProperty("fitting_output_limit");
    await db.query("update ai.budgets set limit_usd = 0.0005 where subject_id = $1", [tenant.keyId]);
    expect((await explain(db, call)).fitting_output_limit).toBe(400);
    await db.query("update ai.budgets set limit_usd = null where subject_id = $1", [tenant.keyId]);
    const ofBalance = await explain(db, call);
    expect(ofBalance.limit).toEqual({ kind: "balance", payer: "member" });
    expect(ofBalance).not.toHaveProperty("fitting_output_limit");
  });

  test("leaves out a budget's amounts if the workspace hides costs, except for an app", async ({ db }) => {
    const tenant = await createTenant(db, {
      credits: "1000",
      key: { monthlyBudgetUsd: "0.0001" },
      prices: { input: "1", output: "1" },
    });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const refused = await explain(db, chatCall(tenant));
    expect(refused.limit).toEqual({ kind: "budget", scope: "key", name: "test", ...month });
    expect(refused).not.toHaveProperty("need");
    expect(JSON.stringify(refused)).not.toContain("usd");
    await bindKey(db, tenant);
    expect(await explain(db, chatCall(tenant))).toMatchObject({ limit: amounts, need: { usd: 0.0002 } });
  });

  test.for([
    ["key", "requests", { key: { requestsPerMinute: 1 } }, { limit: 1, used: 1, remaining: 0 }],
    ["key", "tokens", { key: { tokensPerMinute: 350 } }, { limit: 350, used: 200, remaining: 150 }],
    ["plan", "requests", { plan: { requestsPerMinute: 1 } }, { limit: 1, used: 1, remaining: 0 }],
    ["plan", "tokens", { plan: { tokensPerMinute: 350 } }, { limit: 350, used: 200, remaining: 150 }],
  ] as const)("is the %s's limit of %s per minute", async ([scope, unit, options, counts], { db }) => {
    const tenant = await createTenant(db, { credits: "1000", ...options });
    await db.query(
      `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
       select w.scope, w.subject_id::uuid, date_trunc('minute', now()) + interval '1 minute', 0, 0
       from (values ('key', $1), ('workspace', $2)) as w (scope, subject_id)`,
      [tenant.keyId, tenant.workspaceId],
    );
    await begin(db, chatCall(tenant));
    const refused = await explain(db, chatCall(tenant));
    expect(refused).toMatchObject({
      refused: "rate_limit_exceeded",
      limit: { kind: "rate", scope, unit, window: "minute", reset_seconds: expect.any(Number), ...counts },
    });
    expect(refused.fitting_output_limit).toBe(unit === "tokens" ? 50 : undefined);
  });

  test("is the workspace's if its own policy is stricter than the plan", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", plan: { requestsPerMinute: 5 } });
    await db.query("insert into ai.workspace_policies (workspace_id, requests_per_minute) values ($1, 1)", [
      tenant.workspaceId,
    ]);
    const calls = [
      await explain(db, chatCall(tenant)),
      await explain(db, chatCall(tenant)),
      await explain(db, chatCall(tenant)),
    ];
    expect(calls[2]?.limit).toMatchObject({ scope: "workspace", unit: "requests", limit: 1 });
  });
});

describe("what a refused caller lacks", () => {
  test("names the address that the gateway saw, but not those of the key's list", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1" });
    await db.query("update ai.keys set allowed_addresses = '{192.0.2.7/32}' where id = $1", [tenant.keyId]);
    const refused = await explain(db, chatCall(tenant, { address: "198.51.100.1" }));
    expect(refused).toEqual({ refused: "insufficient_scope", missing: { kind: "address", address: "198.51.100.1" } });
  });

  test("names the scopes that an app's token lacks, and the permission that a member lacks", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1" });
    const { callOf } = await appTokenCall(db, tenant, { scopes: ["workspace:session", "ai:use"] });
    await db.query("update ai.models set kind = 'speech', voices = '{Kore}' where id = $1", [tenant.model]);
    expect((await explain(db, callOf({ kind: "speech" }))).missing).toEqual({ kind: "scope", scopes: ["tts:use"] });
    const claims = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    await db.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", [
      tenant.workspaceId,
      claims.sub,
    ]);
    expect((await explain(db, sessionCall(tenant, claims))).missing).toEqual({
      kind: "permission",
      permission: "use_ai_studio",
    });
  });
});

describe("a model that is not found", () => {
  test("gets the same answer whether it is unknown or not granted, and names only usable models with similar ids", async ({
    db,
  }) => {
    const [tenant, other] = [await createTenant(db), await createTenant(db)];
    const typo = `${tenant.model}x`;
    expect(await explain(db, chatCall(tenant, { model: typo }))).toEqual({
      refused: "model_not_found",
      model: typo,
      similar_models: [tenant.model],
    });
    const ungranted = await explain(db, chatCall(tenant, { model: other.model }));
    const unknown = await explain(db, chatCall(tenant, { model: "quite-another-name" }));
    expect(unknown).toMatchObject({ refused: "model_not_found" });
    expect(ungranted.similar_models ?? []).not.toContain(other.model);
    await db.query("update ai.model_routes set enabled = false where model_id = $1", [tenant.model]);
    expect(await explain(db, chatCall(tenant, { model: typo }))).toMatchObject({ refused: "model_not_found" });
  });

  test("names the regions that a policy allows, and those of the model", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1" });
    await db.query("insert into ai.workspace_policies (workspace_id, allowed_regions) values ($1, '{eu}')", [
      tenant.workspaceId,
    ]);
    expect(await explain(db, chatCall(tenant, { regions: { demo: "us" } }))).toEqual({
      refused: "region_not_allowed",
      param: "model",
      allowed_regions: ["eu"],
      regions: ["us"],
    });
  });
});
