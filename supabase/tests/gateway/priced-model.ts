import { randomUUID } from "node:crypto";
import { fixturePrices } from "@gatehousehq/local-stack/services/provider/fixtures";
import type { GatewayTenant } from "./tenant.ts";

/**
 * Creates a chat model that only the tenant may use. Each provider gets a route at {@link fixturePrices}.
 * @param options.upstream the providers' name for the model
 * @param options.providers the provider of each route, in order
 * @returns the model's name
 */
export async function createPricedModel(
  { db, workspaceId }: Pick<GatewayTenant, "db" | "workspaceId">,
  { upstream = "upstream", providers = ["demo"] }: { upstream?: string; providers?: readonly string[] } = {},
): Promise<string> {
  const model = `priced-${randomUUID()}`;
  // Inserts everything in one statement, so that `npm run doctor`, which may check the stack at any time, never finds
  // an incomplete model.
  await db.query(
    `with model as (
       insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', $1, 'test')
     ), route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model)
       select $1, r.position, r.provider, $9 from unnest($2::text[]) with ordinality as r (provider, position)
     )
     insert into ai.model_prices (
       model_id, provider_id, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million,
       audio_input_usd_per_million, cache_write_usd_per_million, cache_write_1h_usd_per_million
     ) select $1, unnest($2::text[]), $3, $4, $5, $6, $7, $8`,
    [
      model,
      providers,
      fixturePrices.input,
      fixturePrices.cached_input,
      fixturePrices.output,
      fixturePrices.audio_input,
      fixturePrices.cache_write,
      fixturePrices.cache_write_1h,
      upstream,
    ],
  );
  await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [model, workspaceId]);
  return model;
}
