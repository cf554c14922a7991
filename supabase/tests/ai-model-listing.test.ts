import { expect } from "vitest";
import { bindKey } from "./ai-callers.ts";
import { chatCall, createTenant, type Tenant } from "./ai-fixtures.ts";
import { type Database, one, test } from "./database.ts";

/** Returns `platform` of the tenant's model as `GET /v1/models/{id}` has it for its key. */
async function listed(db: Database, tenant: Tenant, providers = ["demo", "second"]) {
  const call = JSON.stringify(chatCall(tenant, { providers }));
  const row = await one(db, { sql: "select ai.list_models($1)::text as answer", values: [call] });
  return (JSON.parse(row.answer as string) as { platform: Record<string, unknown> }).platform;
}

/** Adds a second route with a price for long inputs and one for a service tier. */
async function addSecondRoute(db: Database, { model }: Tenant): Promise<void> {
  await db.query(
    `insert into ai.model_routes (model_id, position, provider_id, provider_model, tier_multipliers)
     values ($1, 2, 'second', 'their-name', '{"flex": 0.5}')`,
    [model],
  );
  await db.query(
    `insert into ai.model_prices (model_id, provider_id, service_tier, min_input_tokens, input_usd_per_million,
       cache_write_usd_per_million, output_usd_per_million, image_input_usd_per_million, request_fee_usd)
     values ($1, 'second', 'default', 0, 2.5, 3.125, 10, 2.000001, 0.01), ($1, 'second', 'default', 200000, 5, null, 15, null, null),
       ($1, 'second', 'priority', 0, 4, null, 20, null, null)`,
    [model],
  );
}

const first = [{ min_input_tokens: 0, input_usd_per_million: 0.15, output_usd_per_million: 0.6 }];
const second = [
  {
    min_input_tokens: 0,
    input_usd_per_million: 2.5,
    cache_write_usd_per_million: 3.125,
    output_usd_per_million: 10,
    image_input_usd_per_million: 2.000001,
    request_fee_usd: 0.01,
  },
  { min_input_tokens: 200_000, input_usd_per_million: 5, output_usd_per_million: 15 },
  { service_tier: "priority", min_input_tokens: 0, input_usd_per_million: 4, output_usd_per_million: 20 },
];
const hide = (db: Database, { workspaceId }: Tenant) =>
  db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [workspaceId]);

test("a model lists the prices of each of its routes, in order", async ({ db }) => {
  const tenant = await createTenant(db);
  await addSecondRoute(db, tenant);
  const routes = [
    { provider: "demo", model: "upstream", prices: first },
    { provider: "second", model: "their-name", prices: second, tier_multipliers: { flex: 0.5 } },
  ];
  expect(await listed(db, tenant)).toMatchObject({ prices: first, routes });
  expect((await listed(db, tenant, ["second"])).routes).toEqual(routes.slice(1));
});

test("a model whose first route has a price for a service tier is listed", async ({ db }) => {
  const tenant = await createTenant(db);
  await addSecondRoute(db, tenant);
  expect(await listed(db, tenant, ["second"])).toMatchObject({ prices: second });
});

test("a model has no prices and no routes where the workspace hides what providers charge", async ({ db }) => {
  const tenant = await createTenant(db);
  await hide(db, tenant);
  const platform = await listed(db, tenant);
  expect([platform.prices, "routes" in platform]).toEqual([[], false]);
  expect(platform).toMatchObject({ kind: "chat", context_window: null, output_limit: null });
});

test("a registered app sees prices even where the workspace hides them", async ({ db }) => {
  const tenant = await createTenant(db);
  await hide(db, tenant);
  await bindKey(db, tenant);
  expect(await listed(db, tenant)).toMatchObject({ prices: first, routes: [{ provider: "demo" }] });
});
