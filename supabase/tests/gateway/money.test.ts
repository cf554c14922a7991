import { expect } from "vitest";
import type { PriceTier } from "../../functions/_shared/money.ts";
import { one, test } from "../database.ts";

/** The columns of prices, for each field of a price in runs. The type requires every field that the gateway reads. */
const columns = {
  service_tier: "service_tier",
  min_input_tokens: "min_input_tokens",
  input: "input_usd_per_million",
  cached_input: "cached_input_usd_per_million",
  cache_write: "cache_write_usd_per_million",
  cache_write_1h: "cache_write_1h_usd_per_million",
  output: "output_usd_per_million",
  audio_input: "audio_input_usd_per_million",
  audio_output: "audio_output_usd_per_million",
  image_input: "image_input_usd_per_million",
  request_fee: "request_fee_usd",
} satisfies Record<keyof PriceTier, string>;
const fields = Object.keys(columns).toSorted();

test("the price book, the prices in runs, the list of models and the gateway's type have the same fields", async ({
  db,
}) => {
  const { stored, parameters, tier, listed, reads } = await one<Record<string, string[]>>(db, {
    sql: `with tier as (select ai.price_tier('t', 0, 1, 1, 1, 1, 1, 1, 1, 1, 1) as value)
          select
            (select array_agg(a.attname::text order by a.attname) from pg_catalog.pg_attribute a
             where a.attrelid = 'ai.model_prices'::regclass and a.attnum > 0 and not a.attisdropped) as stored,
            (select array(select unnest(p.proargnames) order by 1) from pg_catalog.pg_proc p
             where p.oid = 'ai.price_tier'::regproc) as parameters,
            array(select jsonb_object_keys(t.value) order by 1) as tier,
            array(select jsonb_object_keys(ai.listed_price(t.value)) order by 1) as listed,
            (select array(select distinct m[1] from regexp_matches(p.prosrc, 'tier ->> ''(\\w+)''', 'g') as m order by 1)
             from pg_catalog.pg_proc p where p.oid = 'ai.maximum_cost'::regproc) as reads
          from tier t`,
    values: [],
  });
  const own = ["as_offered", "id", "model_id", "provider_id", "valid"];
  expect(stored?.filter((column) => !own.includes(column))).toEqual(Object.values(columns).toSorted());
  expect(parameters).toEqual(fields);
  expect(tier).toEqual(fields);
  expect(listed).toEqual(Object.values(columns).toSorted());
  // Cached input costs at most what other input costs.
  expect(reads).toEqual(fields.filter((field) => field !== "cached_input"));
});
