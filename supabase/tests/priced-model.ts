import { randomUUID } from "node:crypto";
import { fixturePrices } from "../../scripts/local-stack/services/provider/fixtures.ts";
import type { GatewayTenant } from "./ai-gateway-tenant.ts";

/**
 * Makes a chat model of the `demo` provider at {@link fixturePrices}, for the tenant alone.
 * @param options.upstream the provider's name of it
 * @returns its name
 */
export async function createPricedModel(
  { db, workspaceId }: GatewayTenant,
  { upstream = "upstream", provider = "demo" }: { upstream?: string; provider?: string } = {},
): Promise<string> {
  const model = `priced-${randomUUID()}`;
  await db.query("insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', $1, 'test')", [model]);
  await db.query(
    "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 1, $2, $3)",
    [model, provider, upstream],
  );
  await db.query(
    `insert into ai.model_prices (
       model_id, provider_id, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million,
       audio_input_usd_per_million, cache_write_usd_per_million, cache_write_1h_usd_per_million
     ) values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      model,
      provider,
      fixturePrices.input,
      fixturePrices.cached_input,
      fixturePrices.output,
      fixturePrices.audio_input,
      fixturePrices.cache_write,
      fixturePrices.cache_write_1h,
    ],
  );
  await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [model, workspaceId]);
  return model;
}
