import { randomUUID } from "node:crypto";
import { fixturePrices } from "../../scripts/local-stack/services/provider/fixtures.ts";
import type { GatewayTenant } from "./ai-gateway-tenant.ts";

/**
 * Creates a chat model of some providers at {@link fixturePrices}, for the tenant alone.
 * @param options.upstream the providers' name for it
 * @param options.providers one for each route, in order
 * @returns its name
 */
export async function createPricedModel(
  { db, workspaceId }: GatewayTenant,
  { upstream = "upstream", providers = ["demo"] }: { upstream?: string; providers?: readonly string[] } = {},
): Promise<string> {
  const model = `priced-${randomUUID()}`;
  await db.query("insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', $1, 'test')", [model]);
  await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [model, workspaceId]);
  for (const [index, provider] of providers.entries()) {
    await addRoute(db, { model, upstream, provider, position: index + 1 });
  }
  return model;
}

async function addRoute(
  db: GatewayTenant["db"],
  { model, upstream, provider, position }: { model: string; upstream: string; provider: string; position: number },
): Promise<void> {
  await db.query(
    "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, $2, $3, $4)",
    [model, position, provider, upstream],
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
}
