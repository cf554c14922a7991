import { afterAll, beforeAll, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import {
  answerError,
  answerWell,
  hang,
  type ScriptedProvider,
  startScriptedProvider,
} from "../../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

const id = "reported";
let tenant: GatewayTenant;
let provider: ScriptedProvider;
let gateway: InProcessGateway;
let model: string;

beforeAll(async () => {
  [tenant, provider] = await Promise.all([createGatewayTenant(), startScriptedProvider()]);
  model = await createPricedModel(tenant, { providers: [id] });
  gateway = await openGateway({
    AI_PROVIDER_REPORTED_KIND: "openai",
    AI_PROVIDER_REPORTED_BASE_URL: provider.url,
    AI_PROVIDER_REPORTED_API_KEY: "k",
    AI_PROVIDER_REPORTED_FIRST_BYTE_SECONDS: "1",
  });
  await forget();
});
afterAll(async () => {
  await gateway.close();
  await forget();
  provider.close();
  await tenant.close();
});

const forget = () => tenant.db.query("delete from ai.route_health where provider_id = $1", [id]);

/** Sends a streamed call. */
async function call(): Promise<void> {
  const stream = await gateway
    .clientOf(tenant.key)
    .chat.completions.create({ model, stream: true, messages: [{ role: "user", content: "hello" }] })
    .catch(() => []);
  for await (const _ of stream);
}

/** Returns what the gateway has reported about the provider's only route. */
async function healthOf(): Promise<unknown[]> {
  const [row] = await tenant.db.query<{ facts: unknown[] }>(
    `select json_build_array(ai.route_state(h, now()), failures_in_row, failure, status) as facts
     from ai.route_health h where provider_id = $1 and endpoint = 'chat'`,
    [id],
  );
  return row?.facts ?? [];
}

// 429 with Retry-After: https://docs.mistral.ai/deployment/laplateforme/tier/ and
// https://platform.openai.com/docs/guides/rate-limits
test("a route that answers 500, then 429 with Retry-After, then hangs is reported as such, and so is its next answer", async () => {
  for (const [script, state] of [
    [answerError(500), ["quiet", 1, "server_error", 500]],
    [answerError(429, {}, { "retry-after": "20" }), ["skipped", 2, "rate_limited", 429]],
    // A route that is set aside is called if there is no other.
    [hang, ["skipped", 3, "timeout", null]],
    [answerWell, ["working", 0, "timeout", null]],
  ] as const) {
    provider.script = script;
    await call();
    await expect.poll(healthOf).toEqual(state);
  }
});
