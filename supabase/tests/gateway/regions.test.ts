import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, runRow, settle, type Tenant } from "./fixtures.ts";

const providers = ["us_first", "eu_second", "nowhere", "eu_last"];
const regions = { us_first: "us", eu_second: "eu", eu_last: "eu" };

/** Creates a tenant whose model has a route to each provider, in order. */
async function createRoutedTenant(db: Database): Promise<Tenant> {
  const tenant = await createTenant(db, { credits: "100" });
  await db.query("delete from ai.model_routes where model_id = $1", [tenant.model]);
  await db.query("delete from ai.model_prices where model_id = $1", [tenant.model]);
  await db.query(
    `with route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model)
       select $1, p.position, p.id, 'upstream' from unnest($2::text[]) with ordinality as p (id, position)
     )
     insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million)
     select $1, unnest($2::text[]), 0.15, 0.6`,
    [tenant.model, providers],
  );
  return tenant;
}

async function allowRegions(db: Database, { workspaceId }: Tenant, allowed: string[] | null): Promise<void> {
  await db.query(
    `insert into ai.workspace_policies (workspace_id, allowed_regions) values ($1, $2)
     on conflict (workspace_id) do update set allowed_regions = excluded.allowed_regions`,
    [workspaceId, allowed],
  );
}

/** Returns the providers of an admitted run's routes, or the refusal. */
async function admit(db: Database, tenant: Tenant, changes: object): Promise<unknown> {
  const run = await begin(db, chatCall(tenant, { providers, regions, ...changes }));
  return run.refused ?? run.routes.map(({ provider }) => provider);
}

async function list(db: Database, tenant: Tenant, changes: object): Promise<unknown> {
  const call = chatCall(tenant, { providers, regions, ...changes });
  const { answer } = await one<{ answer: { refused?: string; platform: { routes: { provider: string }[] } } }>(db, {
    sql: "select ai.list_models($1) as answer",
    values: [JSON.stringify(call)],
  });
  return answer.refused ?? answer.platform.routes.map(({ provider }) => provider);
}

const notServed = "region_not_allowed";
const cases: [string, string[] | null, object, string[] | string][] = [
  ["any region", null, {}, providers],
  ["eu", ["eu"], {}, ["eu_second", "eu_last"]],
  ["us", ["us"], {}, ["us_first"]],
  ["eu and us, without the provider that has no region", ["eu", "us"], {}, ["us_first", "eu_second", "eu_last"]],
  ["ch, where no provider is", ["ch"], {}, notServed],
  ["eu, if no provider states a region", ["eu"], { regions: {} }, notServed],
  ["eu, if only the provider elsewhere has the endpoint", ["eu"], { providers: ["us_first"] }, notServed],
  ["eu, if no provider has the endpoint", ["eu"], { providers: ["other"] }, "model_not_found"],
];

describe("the regions that a workspace's policy allows", () => {
  test.for(cases)(
    "a call and the list of models get only the routes in: %s",
    async ([, allowed, call, expected], { db }) => {
      const tenant = await createRoutedTenant(db);
      await allowRegions(db, tenant, allowed);
      expect(await admit(db, tenant, call)).toEqual(expected);
      expect(await list(db, tenant, call)).toEqual(expected === notServed ? "model_not_found" : expected);
    },
  );

  test("a run keeps the routes in allowed regions with their positions and regions, and shows each attempt's region", async ({
    db,
  }) => {
    const tenant = await createRoutedTenant(db);
    await allowRegions(db, tenant, ["eu"]);
    const run = await begin(db, chatCall(tenant, { providers, regions }));
    expect(run.routes).toMatchObject([
      { position: 2, provider: "eu_second", region: "eu" },
      { position: 4, provider: "eu_last", region: "eu" },
    ]);
    const attempts = [2, 4].map((route) => ({ route, provider: "p", model: "m", latency_ms: 1 }));
    await settle(db, [outcome(run, { route: 4, attempts })]);
    expect(await runRow(db, run)).toMatchObject({ status: "succeeded", route: 4 });
    const { detail } = await one<{ detail: { attempts: { route: number; region: string | null }[] } }>(db, {
      sql: "select ai.run_detail(ai.find_run($1), true) as detail",
      values: [run.run_id],
    });
    expect(detail.attempts.map(({ route, region }) => [route, region])).toEqual([
      [2, "eu"],
      [4, "eu"],
    ]);
  });

  test("a batch of calls gives each workspace the routes of its own policy", async ({ db }) => {
    const [eu, any] = [await createRoutedTenant(db), await createRoutedTenant(db)];
    await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [eu.model, any.workspaceId]);
    await allowRegions(db, eu, ["eu"]);
    const calls = [eu, { ...any, model: eu.model }].map((tenant) => chatCall(tenant, { providers, regions }));
    const { answers } = await one<{ answers: { routes: { provider: string }[] }[] }>(db, {
      sql: "select array_to_json(ai.admit_calls($1)::json[]) as answers",
      values: [JSON.stringify(calls)],
    });
    expect(answers.map(({ routes }) => routes.map(({ provider }) => provider))).toEqual([
      ["eu_second", "eu_last"],
      providers,
    ]);
  });

  test.for<[string[] | null, string[]]>([
    [null, ["eu", "unknown", "us"]],
    [["eu"], ["eu"]],
  ])(
    "with allowed regions %j, the list names the regions %j, even if provider cost is hidden",
    async ([allowed, expected], { db }) => {
      const tenant = await createRoutedTenant(db);
      await allowRegions(db, tenant, allowed);
      await db.query("update ai.workspace_policies set provider_cost_visible = false where workspace_id = $1", [
        tenant.workspaceId,
      ]);
      const { answer } = await one<{ answer: { platform: object } }>(db, {
        sql: "select ai.list_models($1) as answer",
        values: [JSON.stringify(chatCall(tenant, { providers, regions }))],
      });
      expect(answer.platform).toMatchObject({ regions: expected });
      expect(answer.platform).not.toHaveProperty("routes");
    },
  );
});
