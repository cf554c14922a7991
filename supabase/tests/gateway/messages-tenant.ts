import { readStack } from "../../../scripts/test/stack.ts";
import { createMessagesClient, type MessagesClient } from "./messages-client.ts";
import { createGatewayTenant, type GatewayTenant } from "./tenant.ts";

/** A caller of the Messages API. */
export type MessagesTenant = GatewayTenant & {
  messages: MessagesClient;
  /**
   * Creates a model with one route for each of these demo provider models, in order, at the prices of `demo-messages`.
   */
  addModel: (...providerModels: string[]) => Promise<string>;
};

export async function createMessagesTenant(): Promise<MessagesTenant> {
  const tenant = await createGatewayTenant();
  const { db, key, workspaceId } = tenant;
  const messages = createMessagesClient({ baseUrl: readStack().ai, key });
  let models = 0;

  async function addModel(...providerModels: string[]): Promise<string> {
    models += 1;
    const id = `messages-${workspaceId.slice(0, 8)}-${models}`;
    await db.query(
      `with model as (
         insert into ai.models (id, kind, display_name, owned_by, context_window, output_limit)
         values ($1, 'chat', $1, 'test', 200000, 64000)
       ), route as (
         insert into ai.model_routes (model_id, position, provider_id, provider_model)
         select $1, place, 'demo_messages', name from unnest($2::text[]) with ordinality as r (name, place)
       ), price as (
         insert into ai.model_prices (
           model_id, provider_id, valid, input_usd_per_million, cached_input_usd_per_million, cache_write_usd_per_million,
           cache_write_1h_usd_per_million, output_usd_per_million, request_fee_usd
         )
         values ($1, 'demo_messages', tstzrange('2026-01-01T00:00:00Z', null), 3, 0.3, 3.75, 6, 15, 0.01)
       )
       select`,
      [id, providerModels],
    );
    await db.query("insert into ai.model_grants (model_id, plan_id) values ($1, 'team')", [id]);
    return id;
  }

  return { ...tenant, messages, addModel };
}
