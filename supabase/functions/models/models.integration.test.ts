import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPricedModel } from "../../tests/gateway/priced-model.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { createAiKey } from "../_shared/ai-key.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

describe("models", () => {
  test("lists models in OpenAI's format with prices, the default model first", async () => {
    const { data } = await tenant.client.models.list();
    const model = data.find(({ id }) => id === "demo-chat");
    expect(model).toMatchObject({ object: "model", owned_by: "gatehouse-demo", created: expect.any(Number) });
    expect(model).toMatchObject({
      platform: {
        kind: "chat",
        prices: [{ min_input_tokens: 0, input_usd_per_million: 0.15, output_usd_per_million: 0.6 }],
      },
    });
    // OpenRouter's fields: https://openrouter.ai/docs/models
    expect(model).toMatchObject({
      name: "Demo chat",
      canonical_slug: "demo-chat",
      architecture: { output_modalities: ["text"] },
      pricing: { prompt: "0.00000015", completion: "0.0000006" },
      platform: { credits_per_usd: 12_000 },
    });
    expect(await tenant.client.models.retrieve("demo-chat")).toEqual(model);
    expect(data[0]).toEqual(model);
  });

  test("models without a price or a configured provider are not listed, and calls to them get 404", async () => {
    const unpriced = await createPricedModel(tenant);
    await tenant.db.query("delete from ai.model_prices where model_id = $1", [unpriced]);
    const unreachable = await createPricedModel(tenant, { providers: ["not_configured"] });
    const { data } = await tenant.client.models.list();
    for (const model of [unpriced, unreachable]) {
      expect(data.map(({ id }) => id)).not.toContain(model);
      const call = tenant.client.chat.completions.create({ model, messages: [{ role: "user", content: "hello" }] });
      await expect(call).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    }
  });

  test("a model that the key may not use gets the same answer as an unknown model", async () => {
    await tenant.db.query("update ai.keys set allowed_models = '{demo-chat}' where id = $1", [tenant.keyId]);
    const { data } = await tenant.client.models.list();
    expect(data.map(({ id }) => id)).toEqual(["demo-chat"]);
    for (const id of ["demo-cached", "no-such-model", "a/b", "%", "'", "\u0000", "a".repeat(129)]) {
      await expect(tenant.client.models.retrieve(id)).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    }
  });

  test("refuses a caller without a valid key before it checks the model's name or the headers", async () => {
    const stranger = tenant.client.withOptions({ apiKey: (await createAiKey()).text });
    await expect(stranger.models.retrieve("\u0000")).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
    const headers = { "X-Platform-Operation": "a/b" };
    await expect(stranger.models.list({ headers })).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
    await expect(tenant.client.models.list({ headers })).rejects.toMatchObject({
      status: 400,
      param: "X-Platform-Operation",
    });
  });

  test("listing models requires a valid key", async () => {
    const stranger = tenant.client.withOptions({ apiKey: "nonsense" });
    await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await tenant.db.query("update ai.keys set revoked_at = now() where id = $1", [tenant.keyId]);
    await expect(tenant.client.models.list()).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
  });

  test("HEAD on the model list answers like GET, without a body", async () => {
    const response = await fetch(`${tenant.client.baseURL}/models`, {
      method: "HEAD",
      headers: { authorization: "Bearer nonsense" },
    });
    expect([response.status, await response.text()]).toEqual([401, ""]);
  });
});
