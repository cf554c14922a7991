import { randomUUID } from "node:crypto";
import type { GatewayTenant } from "./ai-gateway-tenant.ts";
import { prices } from "./stated-usages.ts";

/** Makes a chat model of the `demo` provider at the prices of {@link prices}, for the tenant alone. @returns its name */
export async function createPricedModel({ db, workspaceId }: GatewayTenant): Promise<string> {
  const model = `priced-${randomUUID()}`;
  await db.query("insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', $1, 'test')", [model]);
  await db.query(
    "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 1, 'demo', 'upstream')",
    [model],
  );
  await db.query(
    `insert into ai.model_prices (
       model_id, provider_id, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million,
       audio_input_usd_per_million
     ) values ($1, 'demo', $2, $3, $4, $5)`,
    [model, prices.input, prices.cached_input, prices.output, prices.audio_input],
  );
  await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [model, workspaceId]);
  return model;
}
