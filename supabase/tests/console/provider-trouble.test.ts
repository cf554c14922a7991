import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";

type Trouble = { providerId: string; outageSince: string | null; routes: { state: string }[]; callers: object };

const providerId = () => `p${randomUUID().replaceAll("-", "").slice(0, 20)}`;
const secondsAgo = (seconds: number) => `now() - ${seconds} * interval '1 second'`;

/** Gives a tenant's model a provider of its own. */
async function useProvider(db: Database, { model }: Tenant): Promise<string> {
  const provider = providerId();
  await db.query("update ai.model_routes set provider_id = $2 where model_id = $1", [model, provider]);
  return provider;
}

/** Adds the route that is called while the model's first one is skipped. */
const addOtherRoute = (db: Database, { model }: Tenant) =>
  db.query(
    "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 2, $2, 'other')",
    [model, providerId()],
  );

async function storeHealth(
  db: Database,
  { provider, skippedFor = null, failures = 3 }: { provider: string; skippedFor?: number | null; failures?: number },
): Promise<void> {
  await db.query(
    `insert into ai.route_health (
       provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status, failed_at, skipped_until
     ) values ($1, 'upstream', 'chat', ${secondsAgo(60)}, $2, 'server_error', 500, ${secondsAgo(1)},
       now() + $3 * interval '1 second')`,
    [provider, failures, skippedFor],
  );
}

/** Returns the trouble of a provider, or null, and how much the count exceeds that of others. */
async function troubleOf(db: Database, provider: string): Promise<Trouble | undefined> {
  const { list } = await db.asRole("service_role", () =>
    one<{ list: Trouble[] }>(db, { sql: "select private.read_provider_trouble() as list" }),
  );
  return list.find((one) => one.providerId === provider);
}

const countTrouble = async (db: Database) =>
  (
    await db.asRole("service_role", () =>
      one<{ count: number }>(db, { sql: "select private.count_provider_trouble() as count" }),
    )
  ).count;

/** Removes the trouble that other tests have left. */
const clear = (db: Database) => db.query("delete from ai.route_health; delete from ai.provider_outages");

/** Settles a run after a failed attempt at the provider. */
async function fail(db: Database, { tenant, provider, answer }: { tenant: Tenant; provider: string; answer: object }) {
  const run = await begin(db, chatCall(tenant));
  const attempts = [{ route: 1, provider, model: "upstream", failure: "server_error", status: 500, latency_ms: 3 }];
  await settle(db, [outcome(run, { attempts, ...answer })]);
}

describe("trouble of providers", () => {
  test("lists a provider with failing or skipped routes, and what callers got since then", async ({ db }) => {
    await clear(db);
    const tenant = await createTenant(db, { credits: "1000" });
    await db.query("update ai.models set enabled = true where id = $1", [tenant.model]);
    const failed = { status: "failed", http_status: 503, error_code: "upstream_error" };
    for (const answer of [{}, {}, failed]) await fail(db, { tenant, provider: "demo", answer });
    const provider = await useProvider(db, tenant);
    await db.query("update ai.failed_attempts set provider_id = $2 where workspace_id = $1", [
      tenant.workspaceId,
      provider,
    ]);
    expect(await troubleOf(db, provider)).toBeUndefined();
    await storeHealth(db, { provider });
    expect(await troubleOf(db, provider)).toEqual({
      providerId: provider,
      outageSince: null,
      routes: [
        {
          model: "upstream",
          endpoint: "chat",
          state: "failing",
          since: expect.any(String),
          skippedUntil: null,
          failure: "server_error",
          status: 500,
        },
      ],
      callers: { calls: 3, answeredElsewhere: 2, failed: [{ status: 503, code: "upstream_error", calls: 1 }] },
    });
    expect(await countTrouble(db)).toBe(1);
    await db.query("update ai.route_health set skipped_until = now() + interval '1 minute' where provider_id = $1", [
      provider,
    ]);
    // The only route of a model is called during its cooldown, too.
    expect(await troubleOf(db, provider)).toMatchObject({ routes: [{ state: "failing", skippedUntil: null }] });
    await addOtherRoute(db, tenant);
    expect(await troubleOf(db, provider)).toMatchObject({
      routes: [{ state: "skipped", skippedUntil: expect.any(String) }],
    });
    // Attempts from before the trouble say nothing about it.
    await db.query(`update ai.failed_attempts set at = ${secondsAgo(61)} where workspace_id = $1`, [
      tenant.workspaceId,
    ]);
    expect(await troubleOf(db, provider)).toMatchObject({ callers: { calls: 0, answeredElsewhere: 0, failed: [] } });
  });

  test.for([
    ["with two failures", 2, "select"],
    ["of a disabled model", 3, "update ai.models set enabled = false where id = $1"],
    ["that is disabled", 3, "update ai.model_routes set enabled = false where model_id = $1"],
  ] as const)("leaves out a provider whose only route is one %s", async ([, failures, change], { db }) => {
    await clear(db);
    const tenant = await createTenant(db);
    const provider = await useProvider(db, tenant);
    await storeHealth(db, { provider, failures });
    if (change !== "select") await db.query(change, [tenant.model]);
    expect(await troubleOf(db, provider)).toBeUndefined();
    expect(await countTrouble(db)).toBe(0);
  });

  test("lists an open outage before failing routes, also when no route fails at this moment", async ({ db }) => {
    await clear(db);
    const tenant = await createTenant(db);
    const failing = await useProvider(db, tenant);
    await storeHealth(db, { provider: failing });
    const provider = providerId();
    await db.query(
      `insert into ai.provider_outages (provider_id, began_at, ended_at)
       values ($1, ${secondsAgo(5)}, null), ($2, ${secondsAgo(50)}, ${secondsAgo(40)})`,
      [provider, providerId()],
    );
    const { list } = await one<{ list: Trouble[] }>(db, { sql: "select private.read_provider_trouble() as list" });
    expect(list).toMatchObject([
      { providerId: provider, outageSince: expect.any(String), routes: [] },
      { providerId: failing, outageSince: null, routes: [{ state: "failing" }] },
    ]);
    expect(await countTrouble(db)).toBe(2);
  });

  test("lists at most ten providers and counts all", async ({ db }) => {
    await clear(db);
    for (let n = 0; n < 11; n += 1) {
      await db.query(`insert into ai.provider_outages (provider_id, began_at) values ($1, ${secondsAgo(n)})`, [
        providerId(),
      ]);
    }
    const { list } = await one<{ list: Trouble[] }>(db, { sql: "select private.read_provider_trouble() as list" });
    expect(list).toHaveLength(10);
    expect(await countTrouble(db)).toBe(11);
  });
});

describe("states of routes", () => {
  test("lists routes in trouble first, and those that were not reported last", async ({ db }) => {
    await clear(db);
    const tenants = [await createTenant(db), await createTenant(db), await createTenant(db)];
    const [quiet, failing, skipped] = tenants as [Tenant, Tenant, Tenant];
    const providers = { quiet: await useProvider(db, quiet), failing: await useProvider(db, failing), skipped: "" };
    providers.skipped = await useProvider(db, skipped);
    await addOtherRoute(db, skipped);
    await storeHealth(db, { provider: providers.failing });
    await storeHealth(db, { provider: providers.skipped, skippedFor: 30 });
    const { states } = await db.asRole("service_role", () =>
      one<{ states: { routes: object[]; count: number } }>(db, {
        sql: "select private.list_route_states(10000) as states",
      }),
    );
    expect(states.count).toBe(states.routes.length);
    const common = { providerModel: "upstream", failure: "server_error", status: 500, answeredAt: null };
    expect(states.routes.slice(0, 2)).toMatchObject([
      { ...common, provider: providers.skipped, models: [skipped.model], state: "skipped" },
      { ...common, provider: providers.failing, state: "failing", skippedUntil: null },
    ]);
    expect(states.routes).toContainEqual({
      provider: providers.quiet,
      providerModel: "upstream",
      models: [quiet.model],
      endpoint: null,
      state: "quiet",
      since: null,
      skippedUntil: null,
      failure: null,
      status: null,
      failedAt: null,
      answeredAt: null,
    });
    const { first } = await one<{ first: { routes: object[] } }>(db, {
      sql: "select private.list_route_states(1) as first",
    });
    expect(first.routes).toHaveLength(1);
  });
});
