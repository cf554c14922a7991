import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { registerApp } from "../apps/fixtures.ts";
import { createUser, type Database, join, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { begin, books, chatCall, checkCredential, createTenant, outcome, settle, type Tenant } from "./fixtures.ts";

describe("credentials of a call", () => {
  test("an unknown, a revoked and an expired key are all refused as invalid_api_key", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    expect(await begin(db, chatCall({ ...tenant, keyHash: "00".repeat(32) }))).toEqual({ refused: "invalid_api_key" });

    await db.query("update ai.keys set revoked_at = now() where id = $1", [tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).toEqual({ refused: "invalid_api_key" });

    await db.query("update ai.keys set revoked_at = null, expires_at = now() where id = $1", [tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).toEqual({ refused: "invalid_api_key" });

    await db.query("update ai.keys set expires_at = now() + interval '1 second' where id = $1", [tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
  });

  test("a key of a deleted workspace is refused as unknown", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [tenant.workspaceId]);
    expect(await begin(db, chatCall(tenant))).toEqual({ refused: "invalid_api_key" });
  });

  test("a key's hash is not accepted as another kind of credential", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    for (const source of ["session", "app_token"]) {
      const call = chatCall(tenant, { credential: { source, hash: tenant.keyHash } });
      expect(await begin(db, call)).toEqual({ refused: "invalid_api_key" });
    }
  });

  test("the workspace header must name the key's own workspace", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    expect(await begin(db, chatCall(tenant, { workspace: randomUUID() }))).toEqual({ refused: "workspace_mismatch" });
    expect(await begin(db, chatCall(tenant, { workspace: tenant.workspaceId }))).not.toHaveProperty("refused");
  });

  test("a key restricted to addresses refuses calls from other addresses and calls without an address", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    await db.query("update ai.keys set allowed_addresses = '{192.0.2.0/24}' where id = $1", [tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "insufficient_scope" });
    expect(await begin(db, chatCall(tenant, { address: "198.51.100.1" }))).toMatchObject({
      refused: "insufficient_scope",
    });
    expect(await begin(db, chatCall(tenant, { address: "192.0.2.7" }))).not.toHaveProperty("refused");
  });

  test("a key's allowed addresses may be IPv4 or IPv6 ranges, which are exact to their first and last address", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100" });
    await db.query("update ai.keys set allowed_addresses = '{2001:db8:1::/48,192.0.2.7}' where id = $1", [
      tenant.keyId,
    ]);
    const from = async (address: string) => (await begin(db, chatCall(tenant, { address }))).refused ?? "admitted";
    for (const inside of ["2001:db8:1::", "2001:db8:1:ffff:ffff:ffff:ffff:ffff", "192.0.2.7"]) {
      expect([inside, await from(inside)]).toEqual([inside, "admitted"]);
    }
    for (const outside of ["2001:db8:0:ffff::1", "2001:db8:2::", "192.0.2.6", "192.0.2.8", "::c000:207"]) {
      expect([outside, await from(outside)]).toEqual([outside, "insufficient_scope"]);
    }
    await db.query("update ai.keys set allowed_addresses = '{}' where id = $1", [tenant.keyId]);
    expect(await from("192.0.2.7")).toBe("insufficient_scope");
  });

  test("a key bound to an app is refused if the app is not linked", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const app = await registerApp(db, { kind: "external" });
    await db.query("update ai.keys set external_app_id = $1 where id = $2", [app.id, tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "app_not_allowed" });
  });

  test("if members pay, a key charges its creator's balance and stops working when its creator leaves", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { payer: "member", credits: "100" });
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run)]);
    expect(await books(db, tenant)).toMatchObject({ balance: "99.93850000", used: "0.06150000" });

    const successor = await createUser(db);
    await join(db, { workspaceId: tenant.workspaceId, userId: successor.id, role: "owner" });
    await db.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", [
      tenant.workspaceId,
      tenant.ownerId,
    ]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "insufficient_scope" });
    expect(await checkCredential(db, chatCall(tenant))).toMatchObject({ refused: "insufficient_scope" });
    // The key may still be used for reads.
    expect(await checkCredential(db, chatCall(tenant, { kind: undefined }))).not.toHaveProperty("refused");
  });
});

describe("a model is available only if no list excludes it", () => {
  const closings: [string, string][] = [
    ["the enabled catalogue", "update ai.models set enabled = false where id = $1"],
    ["the Studio defaults", "update ai.models set studio_default = false where id = $1"],
    ["the plan's grants", "delete from ai.model_grants where model_id = $1"],
    ["the key's own list", "update ai.keys set allowed_models = '{other}' where id = (select $2::uuid) and $1 <> ''"],
    [
      "the workspace's allowed models",
      "insert into ai.workspace_policies (workspace_id, allowed_models) select workspace_id, '{other}' from ai.keys where id = $2 and $1 <> ''",
    ],
    [
      "the workspace's denied models",
      "insert into ai.workspace_policies (workspace_id, denied_models) select workspace_id, array[$1] from ai.keys where id = $2",
    ],
  ];
  test.for(closings)("a model is not found if %s excludes it", async ([, sql], { db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    await db.query(sql, sql.includes("$2") ? [tenant.model, tenant.keyId] : [tenant.model]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "model_not_found" });
    expect(await listModels(db, chatCall(tenant, { model: undefined }))).toEqual({ object: "list", data: [] });
    expect(await listModels(db, chatCall(tenant))).toMatchObject({ refused: "model_not_found" });
  });

  test("a run reports its key, and whether the key is in strict mode", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    expect(await begin(db, chatCall(tenant))).toMatchObject({ strict: false, key_name: "test" });
    await db.query("update ai.keys set is_strict = true where id = $1", [tenant.keyId]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ strict: true, key_name: "test" });
  });

  test("granting a model directly to a workspace lets the workspace use the model", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const other = await createTenant(db, { credits: "100" });
    const call = chatCall({ ...other, model: tenant.model });
    expect(await begin(db, call)).toMatchObject({ refused: "model_not_found" });
    await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [
      tenant.model,
      other.workspaceId,
    ]);
    expect(await begin(db, call)).not.toHaveProperty("refused");
  });

  test("a model without a price is refused, and not listed", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    await db.query("delete from ai.model_prices where model_id = $1", [tenant.model]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "model_not_found" });
    expect(await listModels(db, chatCall(tenant, { model: undefined }))).toEqual({ object: "list", data: [] });
    expect(await listModels(db, chatCall(tenant))).toMatchObject({ refused: "model_not_found" });
  });

  test("ignores routes to providers that are not configured", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    expect(await begin(db, chatCall(tenant, { providers: ["other"] }))).toMatchObject({ refused: "model_not_found" });
  });
});

/** Replaces the tenant's only price, effective from the start of the transaction. */
async function changePrice(db: Database, { model }: Tenant, change: string): Promise<void> {
  const [column, value] = change.split(" = ");
  await db.query("delete from ai.model_prices where model_id = $1", [model]);
  await db.query(
    `insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million, ${column})
     values ($1, 'demo', 1, 2, $2)`,
    [model, value],
  );
}

describe("the reservation of a call", () => {
  test("reserves a third of the input's bytes as tokens, 1,500 tokens per image, and the full output limit of each choice", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100000", prices: { input: "1", output: "2" } });
    const run = await begin(db, chatCall(tenant, { input_bytes: 301, images: 2, output_limit: 100, choices: 3 }));
    // (101 + 3,000) × 1 + 300 × 2 = 3,701 millionths of a dollar
    expect(run.reserved_credits).toBe("37.01000000");
    expect(await books(db, tenant)).toMatchObject({ balance: "100000.00000000", reserved: "37.01000000", open: 1 });
  });

  test.for([
    {
      what: "the cost of writing all input to a cache",
      price: "cache_write_1h_usd_per_million = 4",
      call: { hour_writes: true },
      credits: "6.00000000",
    },
    {
      what: "images at the image price",
      price: "image_input_usd_per_million = 5",
      call: { images: 1 },
      credits: "78.00000000",
    },
    { what: "one fee", price: "request_fee_usd = 0.01", call: {}, credits: "103.00000000" },
    {
      what: "50 tokens per second of audio",
      price: "audio_input_usd_per_million = 40",
      call: { audio: true, audio_seconds: 5 },
      credits: "103.00000000",
    },
  ])("reserves $what", async ({ price, call, credits }, { db }) => {
    const tenant = await createTenant(db, { credits: "100000", prices: { input: "1", output: "2" } });
    await changePrice(db, tenant, price);
    expect((await begin(db, chatCall(tenant, call))).reserved_credits).toBe(credits);
  });

  test("refuses audio of any length if the model has no price for audio", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    expect(await begin(db, chatCall(tenant, { audio: true }))).toMatchObject({ refused: "unsupported_parameter" });
  });

  test("prices a reservation by the requested service tier, and refuses a tier without a price", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100000", prices: { input: "1", output: "2" } });
    const named = (service_tier: string) => begin(db, chatCall(tenant, { service_tier }));
    const refusal = { refused: "unsupported_parameter", param: "service_tier" };
    expect(await named("priority")).toMatchObject(refusal);
    expect((await named("auto")).reserved_credits).toBe("3.00000000");
    await db.query(`update ai.model_routes set tier_multipliers = '{"priority": 2, "flex": 0.5}' where model_id = $1`, [
      tenant.model,
    ]);
    expect((await named("priority")).reserved_credits).toBe("6.00000000");
    // The flex tier costs half, but the provider may serve the default tier instead.
    expect((await named("flex")).reserved_credits).toBe("3.00000000");
    expect(await named("scale")).toMatchObject(refusal);
    await db.query(
      `insert into ai.model_prices (model_id, provider_id, service_tier, input_usd_per_million, output_usd_per_million)
       values ($1, 'demo', 'scale', 5, 6)`,
      [tenant.model],
    );
    expect((await named("scale")).reserved_credits).toBe("11.00000000");
    expect((await named("default")).reserved_credits).toBe("3.00000000");
  });

  test("prices a reservation at the most expensive route", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100000", prices: { input: "1", output: "2" } });
    await db.query(
      "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 2, 'expensive', 'x')",
      [tenant.model],
    );
    await db.query(
      "insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million) values ($1, 'expensive', 10, 20)",
      [tenant.model],
    );
    const run = await begin(db, chatCall(tenant, { providers: ["demo", "expensive"] }));
    expect(run.reserved_credits).toBe("30.00000000");
  });

  test("admits a call whose reservation equals the balance, and refuses a larger one", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "2", prices: { input: "1", output: "1" } });
    expect(await begin(db, chatCall(tenant, { output_limit: 101 }))).toMatchObject({ refused: "insufficient_credits" });
    expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "insufficient_credits", frees: true });
  });

  test("gives a first-time payer the plan's credits, only once", async ({ db }) => {
    const tenant = await createTenant(db, { initialCredits: "3", prices: { input: "1", output: "1" } });
    expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "insufficient_credits", frees: true });
    expect(await books(db, tenant)).toMatchObject({ balance: "3.00000000", ledger: "3.00000000" });
  });

  test("of 100 concurrent callers, a balance for 10 calls admits exactly 10", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await createTenant(db, { credits: "20", prices: { input: "1", output: "1" } });
      const answers = await Promise.all(Array.from({ length: 100 }, () => begin(db, chatCall(tenant))));
      const admitted = answers.filter((answer) => !answer.refused);
      expect(admitted).toHaveLength(10);
      expect(new Set(answers.map((answer) => answer.refused))).toEqual(new Set([undefined, "insufficient_credits"]));
      expect(await books(db, tenant)).toMatchObject({ balance: "20.00000000", reserved: "20.00000000", open: 10 });

      await settle(
        db,
        admitted.map((run) => outcome(run)),
      );
      expect(await books(db, tenant)).toMatchObject({
        balance: "18.00000000",
        reserved: "0.00000000",
        used: "2.00000000",
        runs: "2.00000000",
      });
    } finally {
      await close();
    }
  });

  test("opens the credit account only once for many concurrent first calls", async () => {
    const { db, close } = openPool(10);
    try {
      const tenant = await createTenant(db, { initialCredits: "6", prices: { input: "1", output: "1" } });
      const answers = await Promise.all(Array.from({ length: 20 }, () => begin(db, chatCall(tenant))));
      expect(answers.filter((answer) => !answer.refused)).toHaveLength(3);
      expect(await books(db, tenant)).toMatchObject({ balance: "6.00000000", ledger: "6.00000000" });
    } finally {
      await close();
    }
  });
});

describe("idempotency", () => {
  const fingerprint = "ab".repeat(32);

  test("admits only one of 50 concurrent callers with the same idempotency key", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await createTenant(db, { credits: "1000" });
      const call = () => begin(db, chatCall(tenant, { idempotency_key: "once", fingerprint }));
      const answers = await Promise.all(Array.from({ length: 50 }, call));
      expect(answers.filter((answer) => !answer.refused)).toHaveLength(1);
      expect(answers.filter((answer) => answer.refused === "request_in_progress")).toHaveLength(49);
      expect(await books(db, tenant)).toMatchObject({ open: 1 });
    } finally {
      await close();
    }
  });

  test("an idempotency key is refused as reused if the body differs, and as used once the call has finished, but other tenants can use it", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const other = await createTenant(db, { credits: "1000" });
    const call = chatCall(tenant, { idempotency_key: "k", fingerprint });
    const run = await begin(db, call);
    expect(await begin(db, { ...call, fingerprint: "cd".repeat(32) })).toEqual({ refused: "idempotency_key_reused" });
    await settle(db, [outcome(run)]);
    expect(await begin(db, call)).toMatchObject({
      refused: "idempotency_key_used",
      run_id: run.run_id,
      usage_source: "provider",
    });
    expect(await begin(db, chatCall(other, { idempotency_key: "k", fingerprint }))).not.toHaveProperty("refused");
  });

  test("frees an idempotency key only if the provider certainly did nothing", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const call = chatCall(tenant, { idempotency_key: "k", fingerprint });
    const refusedByProvider = { status: "failed", usage_source: "unavailable", usage: {} };
    await settle(db, [outcome(await begin(db, call), { ...refusedByProvider, key_unused: true })]);
    const second = await begin(db, call);
    expect(second).not.toHaveProperty("refused");
    await settle(db, [outcome(second, { ...refusedByProvider, key_unused: false })]);
    expect(await begin(db, call)).toMatchObject({ refused: "idempotency_key_used" });
  });

  test("an idempotency key expires after 24 hours", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const call = chatCall(tenant, { idempotency_key: "k", fingerprint });
    await begin(db, call);
    await db.query("update ai.idempotency_keys set expires_at = now() where workspace_id = $1", [tenant.workspaceId]);
    expect(await begin(db, { ...call, fingerprint: "cd".repeat(32) })).not.toHaveProperty("refused");
  });

  test("a refused call does not use up its idempotency key", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1" });
    const call = chatCall(tenant, { idempotency_key: "k", fingerprint });
    expect(await begin(db, { ...call, output_limit: 32768 })).toMatchObject({ refused: "insufficient_credits" });
    expect(await begin(db, { ...call, output_limit: 1 })).not.toHaveProperty("refused");
  });
});

describe("the gateway's role", () => {
  test("the gateway's role calls its own functions, but can't read tables, grant itself credits or call internal functions", async () => {
    const owner = openPool(1);
    const gateway = openPool(1, readStack().gatewayDbUrl);
    try {
      const tenant = await createTenant(owner.db, { credits: "100" });
      const run = await begin(gateway.db, chatCall(tenant));
      expect(await settle(gateway.db, [outcome(run)])).toHaveLength(1);
      await gateway.db.query("select ai.heartbeat_runs('[]')");
      const forbidden = [
        ...["keys", "runs", "runs_default", "credit_accounts", "credit_ledger", "models", "rate_windows"].map(
          (table) => `select from ai.${table}`,
        ),
        "select ai.settle_outcomes('[]')",
        "select ai.sweep_runs()",
        "select ai.grant_credits('workspace', gen_random_uuid(), 1, '')",
        "select * from ai.find_caller(null)",
      ];
      for (const sql of forbidden) await expect(gateway.db.query(sql)).rejects.toMatchObject({ code: "42501" });
    } finally {
      await owner.close();
      await gateway.close();
    }
  });

  test("anon and authenticated users can't call the gateway's functions", async ({ db }) => {
    for (const role of ["anon", "authenticated"] as const) {
      await expect(db.asRole(role, () => db.query("select ai.begin_runs('{}')"))).rejects.toThrow("permission denied");
    }
  });

  test("the service role can read balances, the ledger and runs, but can't change them", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const account = await db.asRole("service_role", () =>
      one<{ balance: string }>(db, {
        sql: "select balance::text from ai.credit_accounts where workspace_id = $1",
        values: [tenant.workspaceId],
      }),
    );
    expect(account.balance).toBe("100.00000000");
    for (const sql of [
      "update ai.credit_accounts set balance = 1e9",
      "delete from ai.credit_ledger",
      "update ai.runs set billed_credits = 0",
      "delete from ai.runs_default",
    ]) {
      await expect(db.asRole("service_role", () => db.query(sql))).rejects.toThrow("permission denied");
    }
  });
});

async function listModels(db: Database, call: object): Promise<unknown> {
  const row = await one(db, { sql: "select ai.list_models($1) as answer", values: [JSON.stringify(call)] });
  return row.answer;
}

describe("calls that may cost a fee per request", () => {
  test("if a price has a fee per request, reserves the fee for each request that the call may make", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "10000" });
    await changePrice(db, tenant, "request_fee_usd = 0.01");
    const reserved = async (changes: object) => (await begin(db, chatCall(tenant, changes))).reserved_usd;
    // 100 input tokens at 1 USD per million, 100 output tokens at 2 USD per million, and one fee or five fees.
    expect(await reserved({})).toBe("0.010300000000");
    expect(await reserved({ fee_requests: 1 })).toBe("0.010300000000");
    expect(await reserved({ fee_requests: 5 })).toBe("0.050300000000");
  });

  test("refuses a call that may cost a fee per request if the route has no price for the fee", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    expect(await begin(db, chatCall(tenant, { fee_requests: 1 }))).toEqual({
      refused: "unsupported_parameter",
      param: "tools",
    });
  });
});

describe("the label that comes from an agent's session", () => {
  const labelOf = async (db: Database, tenant: Tenant, changes: object) => {
    const { run_id } = await begin(db, chatCall(tenant, { session_label: "claude-code:s1", ...changes }));
    const { entity_id } = await one(db, { sql: "select entity_id from ai.runs where id = $1", values: [run_id] });
    return entity_id;
  };

  test("an agent session's label applies to a call only if the call names no label", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    expect(await labelOf(db, tenant, {})).toBe("claude-code:s1");
    expect(await labelOf(db, tenant, { entity_id: "customer-1" })).toBe("customer-1");
  });

  test("if the key has a label, the label from an agent's session is ignored", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { entityId: "customer-2" } });
    expect(await labelOf(db, tenant, {})).toBe("customer-2");
  });
});
