import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { openStrictUpstream, type StrictUpstream } from "../../../tests/gateway/strict-upstream.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

/** The provider guide, whose documented settings are tested. */
const guide = readFileSync(new URL("../../../../docs/providers.md", import.meta.url), "utf8");
const examples = [
  ...guide.matchAll(
    /^(AI_PROVIDER_([A-Z_]+?)_(?:KIND|BASE_URL|API_KEY|API_VERSION|ALLOW_PRIVATE|ENDPOINTS|STREAM_OPTIONS))=(.*)$/gm,
  ),
];
const defaults = new Map(
  [...guide.matchAll(/^\| `([a-z-]+)` \| `(https:[^`]+)` by default/gm)].map(([, kind, url]) => [kind, url]),
);

/** Returns the documented settings, with this test's upstream as the provider's host. */
function settingsOf(id: string, kind: string, origin: string): Record<string, string> {
  const found = examples
    .filter(([, , each]) => each === id)
    .map(([, name = "", , value = ""]) => [name, value] as const);
  const settings: Record<string, string> =
    found.length > 0 ? Object.fromEntries(found) : { [`AI_PROVIDER_${id}_KIND`]: kind };
  const address = settings[`AI_PROVIDER_${id}_BASE_URL`] ?? defaults.get(kind) ?? "";
  settings[`AI_PROVIDER_${id}_BASE_URL`] = address.replace(/^https?:\/\/[^/]+/, origin);
  const takesKey = found.length === 0 || settings[`AI_PROVIDER_${id}_API_KEY`] !== undefined;
  return takesKey ? { ...settings, [`AI_PROVIDER_${id}_API_KEY`]: "k" } : settings;
}

const bearer: [string, string] = ["authorization", "Bearer k"];
const counted = { prompt_tokens: 20, completion_tokens: 3, total_tokens: 23 };

/** Upstream servers that follow the documented format of each provider kind. Each kind's module cites its source. */
const upstreams: (StrictUpstream & { id: string; kind: string })[] = [
  {
    id: "AZURE_CLASSIC",
    kind: "azure",
    path: "/openai/deployments/upstream/chat/completions?api-version=2024-10-21",
    key: ["api-key", "k"],
    limit: "max_completion_tokens",
    members: ["stream_options", "store", "user"],
    turnMembers: ["refusal"],
    usage: { ...counted, prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 } },
    usageIn: "own chunk",
    text: "Forty-two.",
  },
  {
    id: "GOOGLE",
    kind: "gemini",
    path: "/v1beta/openai/chat/completions",
    key: bearer,
    limit: "max_completion_tokens",
    members: ["stream_options"],
    turnMembers: ["extra_content"],
    toolCall: { extra_content: { google: { thought_signature: "c2lnbmF0dXJl" } } },
    usage: counted,
    usageIn: "own chunk",
    text: "Forty-two.",
  },
  {
    id: "MISTRAL",
    kind: "mistral",
    path: "/v1/chat/completions",
    key: bearer,
    limit: "max_tokens",
    members: [],
    turnMembers: ["prefix"],
    usage: { ...counted, prompt_audio_seconds: {} },
    usageIn: "last chunk",
    text: "Forty-two.",
  },
  {
    id: "DEEPSEEK",
    kind: "deepseek",
    path: "/chat/completions",
    key: bearer,
    limit: "max_tokens",
    members: ["stream_options", "store", "user"],
    turnMembers: ["reasoning_content"],
    turn: { reasoning_content: "Six times seven." },
    usage: { ...counted, prompt_cache_hit_tokens: 0, prompt_cache_miss_tokens: 20 },
    usageIn: "own chunk",
    text: "Forty-two.",
  },
  {
    // A server that requires no key and states no usage.
    id: "VLLM",
    kind: "vllm",
    path: "/v1/chat/completions",
    limit: "max_tokens",
    members: ["stream_options", "store", "user"],
    turnMembers: ["reasoning"],
    turn: { reasoning: "Six times seven." },
    text: "Forty-two.",
  },
  {
    // A server that ignores the limit and writes 60 words.
    id: "OWN",
    kind: "openai-compatible",
    path: "/v1/chat/completions",
    key: bearer,
    limit: "max_tokens",
    members: ["stream_options", "store", "user"],
    turnMembers: [],
    usage: { prompt_tokens: 20, completion_tokens: 80, total_tokens: 100 },
    usageIn: "own chunk",
    text: "forty-two ".repeat(60),
  },
];

let tenant: GatewayTenant;
let gateway: InProcessGateway;
const servers = new Map<string, Awaited<ReturnType<typeof openStrictUpstream>>>();
const models = new Map<string, string>();

beforeAll(async () => {
  tenant = await createGatewayTenant();
  let settings: Record<string, string> = {};
  for (const upstream of upstreams) {
    const server = await openStrictUpstream(upstream);
    servers.set(upstream.id, server);
    settings = { ...settings, ...settingsOf(upstream.id, upstream.kind, server.origin) };
    models.set(upstream.id, await createPricedModel(tenant, { providers: [upstream.id.toLowerCase()] }));
  }
  gateway = await openGateway(settings);
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  for (const { close } of servers.values()) close();
});

/** Sends a chat with fields that standard clients send and some providers refuse. @returns the text, usage and run */
async function ask(id: string, { stream, tools }: { stream: boolean; tools: boolean }) {
  const requestId = `it-${randomUUID()}`;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const completion = await client.chat.completions.create({
    model: models.get(id) ?? "",
    messages: [{ role: "user", content: "What is 6 times 7?" }],
    max_completion_tokens: 10,
    ...{ store: false, user: "u-1" },
    ...(tools ? ({ tools: ["calculator"], max_steps: 3 } as object) : {}),
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  });
  let text = "";
  let usage: object | null | undefined;
  if ("choices" in completion) {
    text = completion.choices[0]?.message.content ?? "";
    usage = completion.usage;
  } else {
    for await (const chunk of completion) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage ??= chunk.usage;
    }
  }
  return { text, usage, ...(await tenant.accountOf(requestId)) };
}

const ways = [false, true].flatMap((stream) => [false, true].map((tools) => ({ stream, tools })));

describe.for(upstreams)("an upstream of kind $kind that refuses unknown members", ({ id, text, usage }) => {
  test.for(ways)("a strict upstream serves a chat (stream: $stream, server tools: $tools)", async (way) => {
    const { taken, refused } = servers.get(id) ?? { taken: [], refused: [] };
    taken.length = 0;
    const told = await ask(id, way);
    expect(refused).toEqual([]);
    expect(told.text).toBe(text);
    // A streaming client gets the usage that it requested, even if the provider was not asked for it.
    if (usage || way.stream) {
      expect(told.usage).toMatchObject({ prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) });
    }
    expect(told.run).toMatchObject({ status: "succeeded", http_status: 200 });
    const calls = way.tools ? 2 : 1;
    expect(taken.length).toBe(calls);
    // Output is charged as the provider states it, even beyond the limit. If the provider doesn't state it, it is
    // estimated.
    expect(told.run.usage_source === "provider").toBe(usage !== undefined);
    if (usage) {
      expect(told.run).toMatchObject({
        input_tokens: 20 * calls,
        output_tokens: Number(usage.completion_tokens) * calls,
      });
    } else expect(told.run.output_tokens).toBeGreaterThan(0);
  });
});

test("a model lists its endpoints; calls to other endpoints are refused before a provider is called", async () => {
  const client = gateway.clientOf(tenant.key);
  const own = servers.get("OWN");
  const before = own?.taken.length;
  for (const id of ["OWN", "MISTRAL", "GOOGLE"]) {
    const answer = client.responses.create({ model: models.get(id) ?? "", input: "hello" });
    await expect(answer).rejects.toMatchObject({ status: 404, code: "endpoint_not_served", param: "model" });
    const { data } = await client.models.list();
    expect(data.find((model) => model.id === models.get(id))).toMatchObject({
      platform: { endpoints: ["/v1/chat/completions"] },
    });
  }
  expect(await client.models.retrieve(models.get("AZURE_CLASSIC") ?? "")).toMatchObject({
    platform: { endpoints: ["/v1/chat/completions", "/v1/responses"] },
  });
  expect([own?.taken.length, own?.refused]).toEqual([before, []]);
});

test("if the provider's server does not have the requested endpoint, the call gets a 502 that clients do not retry", async () => {
  const requestId = `it-${randomUUID()}`;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId }).withOptions({ maxRetries: 2 });
  const vllm = servers.get("VLLM");
  await expect(client.responses.create({ model: models.get("VLLM") ?? "", input: "hello" })).rejects.toMatchObject({
    status: 502,
    code: "provider_error",
    message: expect.stringContaining("does not have this endpoint or model"),
  });
  expect(vllm?.refused.splice(0)).toEqual(["no POST /v1/responses"]);
  expect((await tenant.accountOf(requestId)).run).toMatchObject({ status: "failed", cost_usd: "0.000000000000" });
});
