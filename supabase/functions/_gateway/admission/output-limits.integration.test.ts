import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { type ScriptedProvider, startScriptedProvider } from "../../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let provider: ScriptedProvider;
let gateway: InProcessGateway;
let model: string;

beforeAll(async () => {
  [tenant, provider] = await Promise.all([createGatewayTenant(), startScriptedProvider()]);
  gateway = await openGateway({
    AI_PROVIDER_FIRST_BASE_URL: provider.url,
    AI_PROVIDER_FIRST_KIND: "openai",
    AI_PROVIDER_FIRST_API_KEY: "of-first",
  });
  model = await createPricedModel(tenant, { providers: ["first"] });
  await tenant.db.query("update ai.models set output_limit = 1500 where id = $1", [model]);
});
beforeEach(() => {
  provider.calls = 0;
  provider.bodies = [];
});
afterAll(async () => {
  await gateway.close();
  provider.close();
  await tenant.close();
});

const messages = [{ role: "user" as const, content: "hello" }];

/**
 * The fields for an output limit, each with a call that sends the field. The test's provider records requests to
 * `/responses`, but can only answer chat completions.
 */
const surfaces = [
  {
    field: "max_completion_tokens",
    ask: (limit: object) => gateway.clientOf(tenant.key).chat.completions.create({ model, messages, ...limit }),
  },
  {
    field: "max_tokens",
    ask: (limit: object) => gateway.clientOf(tenant.key).chat.completions.create({ model, messages, ...limit }),
  },
  {
    field: "max_output_tokens",
    ask: (limit: object) => gateway.clientOf(tenant.key).responses.create({ model, input: "hello", ...limit }),
  },
];

describe.for(surfaces)("a model's output limit of 1,500 tokens, with the field $field", ({ field, ask }) => {
  test("refuses an output limit of 1,501 if the model allows 1,500, and names the limit and the field", async () => {
    await expect(ask({ [field]: 1_501 })).rejects.toMatchObject({
      status: 400,
      code: "invalid_request",
      param: field,
      error: {
        message: `The model's output limit is 1,500 tokens; this request allows 1,501. With \`${field}\` 1,500 it fits.`,
        fitting_output_limit: 1_500,
      },
    });
    expect(provider.calls).toBe(0);
  });

  test("passes an output limit of 1,500 on to the provider", async () => {
    await ask({ [field]: 1_500 }).catch(() => {});
    expect(Object.values(provider.bodies[0] ?? {})).toContain(1_500);
  });

  test("a default output limit above the model's limit is lowered to the model's limit in the provider's request", async () => {
    await ask({}).catch(() => {});
    expect(Object.values(provider.bodies[0] ?? {})).toContain(1_500);
  });
});

// Codex and the Agents SDKs set no output limit, and fail if an answer is cut off at a limit.
test("without a stated limit, a streamed response has the model's output limit, a whole response 8,192 tokens, and a chat 2,048", async () => {
  const roomy = await createPricedModel(tenant, { providers: ["first"] });
  await tenant.db.query("update ai.models set output_limit = 9000 where id = $1", [roomy]);
  const client = gateway.clientOf(tenant.key);
  await client.responses.create({ model: roomy, input: "hello", stream: true }).catch(() => {});
  await client.responses.create({ model: roomy, input: "hello" }).catch(() => {});
  await client.chat.completions.create({ model: roomy, messages });
  expect(provider.bodies).toMatchObject([
    { max_output_tokens: 9_000 },
    { max_output_tokens: 8_192 },
    { max_completion_tokens: 2_048 },
  ]);
});

test("without a stated limit, every call has the model's own default output limit", async () => {
  const own = await createPricedModel(tenant, { providers: ["first"] });
  await tenant.db.query("update ai.models set output_limit = 64000, default_output_limit = 20000 where id = $1", [own]);
  const client = gateway.clientOf(tenant.key);
  await client.responses.create({ model: own, input: "hello", stream: true }).catch(() => {});
  await client.responses.create({ model: own, input: "hello" }).catch(() => {});
  await client.chat.completions.create({ model: own, messages });
  await client.chat.completions.create({ model: own, messages, max_tokens: 10 });
  expect(provider.bodies).toMatchObject([
    { max_output_tokens: 20_000 },
    { max_output_tokens: 20_000 },
    { max_completion_tokens: 20_000 },
    { max_completion_tokens: 10 },
  ]);
  expect(await client.models.retrieve(own)).toMatchObject({ platform: { default_output_limit: 20_000 } });
});
