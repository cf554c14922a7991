import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { type ScriptedProvider, startScriptedProvider } from "../../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let provider: ScriptedProvider;
let gateway: InProcessGateway;
/** `model` is routed to OpenAI only; `mixed` has a second route, whose provider accepts fewer members. */
let model: string;
let mixed: string;

beforeAll(async () => {
  [tenant, provider] = await Promise.all([createGatewayTenant(), startScriptedProvider()]);
  gateway = await openGateway({
    AI_PROVIDER_FIRST_KIND: "openai",
    AI_PROVIDER_FIRST_API_KEY: "of-first",
    AI_PROVIDER_FIRST_BASE_URL: provider.url,
    AI_PROVIDER_SECOND_KIND: "mistral",
    AI_PROVIDER_SECOND_API_KEY: "of-second",
    AI_PROVIDER_SECOND_BASE_URL: provider.url,
  });
  model = await createPricedModel(tenant, { providers: ["first"] });
  mixed = await createPricedModel(tenant, { providers: ["first", "second"] });
});
beforeEach(async () => {
  provider.calls = 0;
  await setStrict(true);
});
afterAll(async () => {
  await gateway.close();
  provider.close();
  await tenant.close();
});

const setStrict = (strict: boolean) =>
  tenant.db.query("update ai.keys set is_strict = $2 where id = $1", [tenant.keyId, strict]);

/** Sends a chat with additional members. Returns its outcome, its account and a function that repeats it. */
async function ask(more: object, name = model) {
  const headers = { "x-request-id": randomUUID(), "idempotency-key": randomUUID() };
  const body = { model: name, messages: [{ role: "user" as const, content: "hello" }], ...more };
  const create = () => gateway.clientOf(tenant.key).chat.completions.create(body, { headers });
  const outcome: unknown = await create().catch((error) => error);
  return { outcome, account: await tenant.accountOf(headers["x-request-id"]), again: create };
}

const webSearch = { tools: [{ type: "web_search" as never }] };

describe("a key in strict mode", () => {
  test.for([
    ["members that the provider's kind does not accept", { top_k: 3, acme_mode: "x" }, ["top_k", "acme_mode"]],
    ["a hosted tool", webSearch, ["web_search"]],
  ] as const)("strict mode refuses and names %s, without calling the provider or charging", async ([, more, names]) => {
    const before = (await tenant.books()).balance;
    const { outcome, account } = await ask(more);
    expect(outcome).toMatchObject({ status: 400, code: "unsupported_parameter", param: names[0] });
    for (const name of names) expect((outcome as Error).message).toContain(name);
    expect(account.run).toMatchObject({ status: "failed", http_status: 400, error_code: "unsupported_parameter" });
    const { balance, reserved } = await tenant.books();
    expect([provider.calls, account.charged, reserved, balance]).toEqual([0, "0.00000000", "0.00000000", before]);
  });

  test("strict mode refuses a request field that only the second route would drop", async () => {
    const retention = { prompt_cache_retention: "24h" as const };
    expect((await ask(retention)).outcome).toMatchObject({ object: "chat.completion" });
    expect((await ask(retention, mixed)).outcome).toMatchObject({ status: 400, param: "prompt_cache_retention" });
  });

  test("strict mode refuses an optional field such as `user` if only the second route would drop it", async () => {
    expect((await ask({ user: "u", store: false })).outcome).toMatchObject({ object: "chat.completion" });
    expect((await ask({ user: "u", store: false }, mixed)).outcome).toMatchObject({ status: 400, param: "user" });
    expect((await ask({ store: false }, mixed)).outcome).toMatchObject({ object: "chat.completion" });
  });

  test("strict mode serves a call if every request field that isn't null reaches the provider", async () => {
    const { outcome } = await ask({ acme_mode: null, temperature: 0.5 });
    expect(outcome).toMatchObject({ object: "chat.completion" });
    expect(outcome).not.toHaveProperty("platform.ignored");
  });

  // Codex always sends client_metadata: codex-rs/core/src/client.rs in github.com/openai/codex.
  test("strict mode accepts client_metadata but doesn't pass it on to the provider", async () => {
    const body = { model, input: "hello", client_metadata: { session: "s" } };
    await gateway
      .clientOf(tenant.key)
      .responses.create(body as never)
      .catch(() => {});
    expect(provider.calls).toBe(1);
  });

  test("a refusal in strict mode leaves the idempotency key free", async () => {
    const { again } = await ask(webSearch);
    await setStrict(false);
    expect(await again()).toMatchObject({ platform: { ignored: ["web_search"] } });
  });

  test("strict mode refuses a Responses API request for the same reasons as a chat request", async () => {
    const call = gateway
      .clientOf(tenant.key)
      .responses.create({ model, input: "hello", tools: [{ type: "web_search" }], acme_mode: "x" } as never);
    await expect(call).rejects.toMatchObject({ status: 400, code: "unsupported_parameter", param: "web_search" });
    await expect(call).rejects.toThrow("acme_mode");
  });
});

test("without strict mode, unsupported request fields are left out and listed in the answer", async () => {
  await setStrict(false);
  const { outcome } = await ask({ ...webSearch, acme_mode: "x" });
  expect(outcome).toMatchObject({ platform: { ignored: ["web_search", "acme_mode"] } });
  expect(provider.calls).toBe(1);
});
