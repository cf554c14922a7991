import { describe, expect } from "vitest";
import { createActor } from "./actors.ts";
import { createTenant } from "./ai-fixtures.ts";
import { type Database, one, test } from "./database.ts";

const day = 24 * 60 * 60 * 1000;
const inDays = (days: number) => new Date(Date.now() + days * day).toISOString();

async function createBook(db: Database): Promise<{ actor: string; model: string }> {
  const { sub: actor } = await createActor(db, {});
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
  const { model } = await createTenant(db);
  return { actor, model };
}

type Listed = { providerId: string; providerModel: string; prices: Record<string, unknown>[] };

/** The routes of a model with their prices. */
async function listed(db: Database, model: string): Promise<Listed[]> {
  const { routes } = await one<{ routes: (Listed & { model: string })[] }>(db, {
    sql: "select private.list_route_prices() as routes",
  });
  return routes.filter((route) => route.model === model);
}

describe("prices of routes", () => {
  test("are the current one, else the next, else the last, of each tier", async ({ db }) => {
    const { model } = await createBook(db);
    const add = (tier: [service: string, from: number], valid: [string | null, string | null], input: string) =>
      db.query(
        `insert into ai.model_prices (model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million,
           output_usd_per_million)
         values ($1, 'demo', $2, $3, tstzrange($4, $5), $6, 1)`,
        [model, ...tier, ...valid, input],
      );
    await add(["flex", 0], [inDays(-3), inDays(-1)], "1");
    await add(["flex", 0], [inDays(-1), inDays(1)], "2");
    await add(["flex", 0], [inDays(1), null], "3");
    await add(["priority", 0], [inDays(2), inDays(3)], "4");
    await add(["priority", 0], [inDays(3), null], "5");
    await add(["default", 200000], [inDays(-3), inDays(-2)], "6");
    await add(["default", 200000], [inDays(-2), inDays(-1)], "7.1");
    const [route, ...others] = await listed(db, model);
    expect(others).toEqual([]);
    expect(route).toMatchObject({ providerId: "demo", providerModel: expect.any(String) });
    const { latest } = await one<{ latest: string }>(db, {
      sql: "select max(id)::text as latest from ai.model_prices where model_id = $1 and min_input_tokens = 0",
      values: [model],
    });
    expect(route?.prices).toMatchObject([
      { serviceTier: "default", minInputTokens: 0, current: true, latest },
      { serviceTier: "default", minInputTokens: 200000, current: false, inputUsd: "7.100000" },
      { serviceTier: "flex", current: true, inputUsd: "2.000000", latest },
      { serviceTier: "priority", current: false, inputUsd: "4.000000", cachedInputUsd: null, latest },
    ]);
    expect(route?.prices[1]?.latest).not.toBe(latest);
  });
});
