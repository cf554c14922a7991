import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, type Tenant, type TenantOptions } from "./fixtures.ts";

/** Creates a tenant whose model writes at most 1,000 tokens. 100 input and 1,000 output tokens cost 0.000615 USD. */
async function createLimited(db: Database, options: TenantOptions = {}): Promise<Tenant> {
  const tenant = await createTenant(db, { credits: "1000", ...options });
  await db.query("update ai.models set output_limit = 1000 where id = $1", [tenant.model]);
  return tenant;
}

describe("a call that states an output limit", () => {
  test("admits a call whose output limit equals the model's, and refuses a call with a higher limit without creating a run or a reservation", async ({
    db,
  }) => {
    const tenant = await createLimited(db);
    expect(await begin(db, chatCall(tenant, { output_limit: 1_001 }))).toMatchObject({
      refused: "invalid_request",
      limit: { kind: "model_output", limit: 1_000 },
      fitting_output_limit: 1_000,
    });
    const held = await one(db, {
      sql: `select (select count(*)::int from ai.runs where workspace_id = $1) as runs,
              (select reserved::text from ai.credit_accounts where workspace_id = $1) as reserved`,
      values: [tenant.workspaceId],
    });
    expect(held).toEqual({ runs: 0, reserved: "0.00000000" });
    expect(await begin(db, chatCall(tenant, { output_limit: 1_000 }))).toMatchObject({
      output_limit: 1_000,
      reserved_usd: "0.000615000000",
    });
  });

  test("a stated output limit is checked against the model's limit first, then against the token limits", async ({
    db,
  }) => {
    const tenant = await createLimited(db, { key: { tokensPerMinute: 500 } });
    expect(await begin(db, chatCall(tenant, { output_limit: 1_001 }))).toMatchObject({ model_output_limit: 1_000 });
    expect(await begin(db, chatCall(tenant, { output_limit: 1_000 }))).toMatchObject({ token_limit: { limit: 500 } });
  });

  test("accepts any stated output limit if the model has no limit of its own", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    expect(await begin(db, chatCall(tenant, { output_limit: 32_768 }))).toMatchObject({ output_limit: 32_768 });
  });
});

describe("a call that states no output limit", () => {
  const assumed = { output_limit_assumed: true };

  test.for([
    [1_001, 1_000, "0.000615000000"],
    [1_000, 1_000, "0.000615000000"],
    [999, 999, "0.000614400000"],
  ] as const)(
    "a default output limit of %i reserves %i output tokens",
    async ([output_limit, effective, reserved_usd], { db }) => {
      const tenant = await createLimited(db);
      const run = await begin(db, chatCall(tenant, { ...assumed, output_limit }));
      expect(run).toMatchObject({ output_limit: effective, reserved_usd });
    },
  );

  test.for([
    ["raises", 2_048, 32_768, 64_000, 128_000, 32_768],
    ["lowers", 32_768, 4_096, 64_000, 128_000, 4_096],
    ["is lowered to the room in the context window", 2_048, 32_768, 64_000, 8_100, 8_000],
    ["applies although the model's limit is unknown", 2_048, 32_768, null, null, 32_768],
  ] as const)(
    "the model's own default replaces the assumed limit: %s",
    async ([_, output_limit, own, model_limit, context_window, effective], { db }) => {
      const tenant = await createTenant(db, { credits: "1000" });
      await db.query(
        "update ai.models set output_limit = $2, default_output_limit = $3, context_window = $4 where id = $1",
        [tenant.model, model_limit, own, context_window],
      );
      const run = await begin(db, chatCall(tenant, { ...assumed, output_limit }));
      expect(run).toMatchObject({ output_limit: effective });
      const stated = await begin(db, chatCall(tenant, { output_limit: 100 }));
      expect(stated).toMatchObject({ output_limit: 100 });
    },
  );

  test.for([
    [32_768, 32_768, "chat", true],
    [32_769, null, "chat", false],
    [0, null, "chat", false],
    [1_001, 1_000, "chat", false],
    [1_000, null, "embedding", false],
  ] as const)(
    "a default output limit of %i with an output limit of %s for %s is accepted: %s",
    async ([own, output_limit, kind, accepted], { db }) => {
      const tenant = await createTenant(db);
      const saved = db.query(
        "update ai.models set output_limit = $2, default_output_limit = $3, kind = $4 where id = $1",
        [tenant.model, output_limit, own, kind],
      );
      if (accepted) await saved;
      else await expect(saved).rejects.toMatchObject({ code: "23514" });
    },
  );

  test("a call without an output limit reserves the model's limit for each choice", async ({ db }) => {
    const tenant = await createLimited(db);
    const run = await begin(db, chatCall(tenant, { ...assumed, output_limit: 2_048, choices: 2 }));
    expect(run).toMatchObject({ output_limit: 1_000, reserved_usd: "0.001215000000" });
  });

  test.for([
    ["the model's limit is unknown", null, 128_000, 2_048],
    ["the context window is unknown", 8_000, null, 8_000],
    ["the context window has room", 8_000, 8_100, 8_000],
    ["the context window has slightly less room", 8_000, 8_099, 7_999],
    ["the context window has room for the default", 8_000, 2_148, 2_048],
    ["the context window has almost no room", 8_000, 2_147, 2_048],
  ] as const)(
    "derives the default output limit from the model's limit and context window: %s",
    async ([_, output_limit, context_window, effective], { db }) => {
      const tenant = await createLimited(db);
      await db.query("update ai.models set output_limit = $2, context_window = $3 where id = $1", [
        tenant.model,
        output_limit,
        context_window,
      ]);
      const run = await begin(db, chatCall(tenant, { ...assumed, output_limit: 32_768 }));
      expect(run).toMatchObject({ output_limit: effective });
    },
  );

  test("rate windows reserve no more output tokens for a call than the model's output limit", async ({ db }) => {
    const tenant = await createLimited(db, { key: { tokensPerMinute: 2_000 } });
    await db.query("update ai.models set output_limit = 30 where id = $1", [tenant.model]);
    expect(await begin(db, chatCall(tenant, { ...assumed, output_limit: 2_048 }))).toMatchObject({
      reserved_tokens: 130,
    });
  });
});

test("a speech call whose estimated output exceeds the model's limit is admitted, and reserves only that limit", async ({
  db,
}) => {
  const tenant = await createLimited(db);
  await db.query("update ai.models set kind = 'speech', voices = '{Kore}' where id = $1", [tenant.model]);
  for (const output_limit of [1_000, 1_001]) {
    const run = await begin(db, chatCall(tenant, { kind: "speech", output_limit }));
    expect(run).toMatchObject({ output_limit: null, reserved_usd: "0.000615000000" });
  }
});
