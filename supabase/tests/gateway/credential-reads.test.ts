import { expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { bindKey } from "./call-fixtures.ts";
import { chatCall, createTenant, type Tenant } from "./fixtures.ts";

/** Returns the `platform` field of the tenant's model, as `GET /v1/models/{id}` returns it for the tenant's key. */
async function listed(db: Database, tenant: Tenant, providers = ["demo", "second"]) {
  const call = JSON.stringify(chatCall(tenant, { providers }));
  const row = await one(db, { sql: "select ai.list_models($1)::text as answer", values: [call] });
  return (JSON.parse(row.answer as string) as { platform: Record<string, unknown> }).platform;
}

/** Adds a second route, which also has a price for long inputs and a price for the priority tier. */
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

test("lists a model with the prices of each of its routes, in order", async ({ db }) => {
  const tenant = await createTenant(db);
  await addSecondRoute(db, tenant);
  const routes = [
    { provider: "demo", model: "upstream", prices: first },
    { provider: "second", model: "their-name", prices: second, tier_multipliers: { flex: 0.5 } },
  ];
  expect(await listed(db, tenant)).toMatchObject({ prices: first, routes });
  expect((await listed(db, tenant, ["second"])).routes).toEqual(routes.slice(1));
});

test("a model whose first route has service-tier prices is listed with those prices", async ({ db }) => {
  const tenant = await createTenant(db);
  await addSecondRoute(db, tenant);
  expect(await listed(db, tenant, ["second"])).toMatchObject({ prices: second });
});

test("hides a model's prices and routes if the workspace hides provider cost", async ({ db }) => {
  const tenant = await createTenant(db);
  await hide(db, tenant);
  const platform = await listed(db, tenant);
  expect([platform.prices, "routes" in platform]).toEqual([[], false]);
  expect(platform).toMatchObject({ kind: "chat", context_window: null, output_limit: null });
});

test("a registered app sees model prices even if the workspace hides them", async ({ db }) => {
  const tenant = await createTenant(db);
  await hide(db, tenant);
  await bindKey(db, tenant);
  expect(await listed(db, tenant)).toMatchObject({ prices: first, routes: [{ provider: "demo" }] });
});

test("lists what a dollar of provider cost takes from the balance, with the plan's markup", async ({ db }) => {
  const tenant = await createTenant(db);
  await db.query("update ai.plans set markup = 1.25 where id = (select plan_id from public.workspaces where id = $1)", [
    tenant.workspaceId,
  ]);
  expect((await listed(db, tenant)).credits_per_usd).toBe(12_500);
  await hide(db, tenant);
  expect(await listed(db, tenant)).not.toHaveProperty("credits_per_usd");
  // An app's calls take no credits.
  await bindKey(db, tenant);
  expect((await listed(db, tenant)).credits_per_usd).toBeNull();
});

test("list_models returns JSON text with its keys in the order of jsonb, both for one model and for all models", async ({
  db,
}) => {
  const tenant = await createTenant(db);
  await addSecondRoute(db, tenant);
  await db.query(
    `update ai.models set display_name = 'A "quoted" name', created_at = '2026-01-01T00:00:00.5Z'
     where id = $1`,
    [tenant.model],
  );
  const prices = '[{"min_input_tokens": 0, "input_usd_per_million": 0.15, "output_usd_per_million": 0.6}]';
  const secondPrices =
    '[{"request_fee_usd": 0.01, "min_input_tokens": 0, "input_usd_per_million": 2.5, "output_usd_per_million": 10, ' +
    '"cache_write_usd_per_million": 3.125, "image_input_usd_per_million": 2.000001}, {"min_input_tokens": 200000, ' +
    '"input_usd_per_million": 5, "output_usd_per_million": 15}, {"service_tier": "priority", "min_input_tokens": 0, ' +
    '"input_usd_per_million": 4, "output_usd_per_million": 20}]';
  const expected =
    `{"id": "${tenant.model}", "object": "model", "created": 1767225600, "owned_by": "test", "platform": ` +
    `{"kind": "chat", "name": "A \\"quoted\\" name", "prices": ${prices}, "routes": [{"model": "upstream", "prices": ` +
    `${prices}, "provider": "demo"}, {"model": "their-name", "prices": ${secondPrices}, "provider": "second", ` +
    `"tier_multipliers": {"flex": 0.5}}], "regions": ["unknown"], "output_limit": null, "context_window": null, "credits_per_usd": 10000, "default_output_limit": null}}`;
  const ask = async (changes: object) => {
    const call = JSON.stringify(chatCall(tenant, { providers: ["demo", "second"], ...changes }));
    return one<{ plain: string; listing: string; endpoints: string[][] }>(db, {
      sql: `select a::text as plain, a ->> 'listing' as listing, a -> 'endpoints' as endpoints
            from ai.list_models($1) as a`,
      values: [call],
    });
  };
  const all = `{"data": [${expected}], "object": "list"}`;
  expect([(await ask({})).plain, (await ask({ model: undefined })).plain]).toEqual([expected, all]);
  const paths = [
    { path: "/first", kind: "chat", providers: ["second"] },
    { path: "/other", kind: "speech", providers: ["demo", "second"] },
    { path: "/second", kind: "chat", providers: ["demo", "third"] },
    { path: "/third", kind: "chat", providers: ["third"] },
  ];
  const endpoints = [["/first", "/second"]];
  expect(await ask({ paths })).toMatchObject({ listing: expected, endpoints });
  expect(await ask({ paths, model: undefined })).toMatchObject({ listing: all, endpoints });
});

test("returns an empty list if no model exists", async ({ db }) => {
  const tenant = await createTenant(db);
  const call = JSON.stringify(chatCall(tenant, { model: undefined, providers: ["other"], paths: [] }));
  const row = await one(db, { sql: "select ai.list_models($1) as answer", values: [call] });
  expect(row.answer).toEqual({ listing: '{"data": [], "object": "list"}', endpoints: [] });
});
