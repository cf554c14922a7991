import { describe, expect } from "vitest";
import { createTenant, type Tenant } from "./ai-fixtures.ts";
import { type Database, one, test } from "./database.ts";
import { openPool } from "./pools.ts";

type Offer = { valid_from: string; valid_until: string; plans: string[]; providers: string[]; routes: Route[] };
type Route = { position: number; provider: string; prices: { input: string }[] };

async function offersOf(db: Database, { model }: Tenant): Promise<Offer[]> {
  return db.query<Offer>(
    `select valid_from::text, valid_until::text, plans, providers, routes
     from ai.model_offers where model_id = $1 order by valid_from`,
    [model],
  );
}

/** The input price of each route in each period, in order. */
async function pricesOf(db: Database, tenant: Tenant): Promise<string[][]> {
  const offers = await offersOf(db, tenant);
  return offers.map(({ routes }) => routes.map(({ prices }) => prices.map(({ input }) => input).join(" ")));
}

describe("ai.model_offers", () => {
  test("are what the catalogue says of this moment, after each kind of change", async ({ db }) => {
    const tenant = await createTenant(db);
    const changes = [
      "update ai.model_prices set valid = tstzrange(lower(valid), now() + interval '1 day') where model_id = $1",
      "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 2, 'other', 'same')",
      `insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million)
       values ($1, 'other', 2, 3)`,
      `insert into ai.model_prices
         (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million)
       values ($1, 'other', 1000, 4, 3)`,
      "update ai.model_routes set enabled = false where model_id = $1 and position = 1",
      "update ai.model_routes set position = 3 where model_id = $1 and position = 1",
      "delete from ai.model_routes where model_id = $1 and position = 3",
    ];
    for (const sql of changes) {
      await db.query(sql, [tenant.model]);
      const { said } = await one<{ said: unknown }>(db, {
        sql: "select ai.priced_routes($1, '{demo,other}') as said",
        values: [tenant.model],
      });
      const [offer] = await offersOf(db, tenant);
      expect(offer?.routes).toEqual(said);
      expect(offer?.plans).toEqual([tenant.planId]);
    }
  });

  test("of moments to come are there before them, so that a price holds from its first moment", async ({ db }) => {
    const tenant = await createTenant(db);
    const tomorrow = "date_trunc('day', now()) + interval '1 day'";
    await db.query(`update ai.model_prices set valid = tstzrange(lower(valid), ${tomorrow}) where model_id = $1`, [
      tenant.model,
    ]);
    await db.query(
      `insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
       values ($1, 'demo', tstzrange(${tomorrow}, ${tomorrow} + interval '1 day'), 9, 9)`,
      [tenant.model],
    );
    expect(await pricesOf(db, tenant)).toEqual([["0.150000"], ["9.000000"]]);
    const [now, then] = await offersOf(db, tenant);
    expect(now?.valid_until).toBe(then?.valid_from);
    // Nothing is offered without a price.
    expect(then?.valid_until).not.toBe("infinity");
  });

  test.for([
    ["shut", "update ai.models set enabled = false where id = $1"],
    ["kept from workspaces", "update ai.models set studio_default = false where id = $1"],
    ["without a route", "delete from ai.model_routes where model_id = $1"],
  ] as const)("are none of a model that is %s", async ([, sql], { db }) => {
    const tenant = await createTenant(db);
    expect(await offersOf(db, tenant)).toHaveLength(1);
    await db.query(sql, [tenant.model]);
    expect(await offersOf(db, tenant)).toEqual([]);
  });

  test("follow grants", async ({ db }) => {
    const tenant = await createTenant(db);
    await db.query("delete from ai.model_grants where model_id = $1", [tenant.model]);
    expect((await offersOf(db, tenant)).map(({ plans }) => plans)).toEqual([[]]);
  });

  test("have every change of fifty at once", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await createTenant(db);
      const added = Array.from({ length: 50 }, (_, place) =>
        db.query(
          `with route as (
             insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, $2, $3, 'x')
           )
           insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million)
           values ($1, $3, 1, 1)`,
          [tenant.model, place + 2, `provider_${place}`],
        ),
      );
      await Promise.all(added);
      const offers = await db.query<{ routes: number }>(
        `select jsonb_array_length(routes) as routes from ai.model_offers
         where model_id = $1 and valid_from <= now() and valid_until > now()`,
        [tenant.model],
      );
      expect(offers).toEqual([{ routes: 51 }]);
    } finally {
      await close();
    }
  });
});
