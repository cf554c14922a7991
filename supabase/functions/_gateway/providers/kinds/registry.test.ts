import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { chatProviderRequest } from "../../chat/provider-request.ts";
import { readChat } from "../../chat/request.ts";
import { embeddingsSurface } from "../../embeddings/surface.ts";
import { createModelAddress } from "../provider-address.ts";
import { type Provider, readProviders } from "../provider-settings.ts";
import type { Endpoint, KindName } from "./kind.ts";
import { kinds } from "./registry.ts";

const settingsOf = (kind: KindName, more: Record<string, string>) => ({
  AI_PROVIDER_X_KIND: kind,
  AI_PROVIDER_X_API_KEY: "k",
  ...more,
});

function providerOf(kind: KindName, more: Record<string, string> = {}): Provider {
  const [provider] = readProviders(settingsOf(kind, more), { local: false }).values();
  if (!provider) throw new Error("no provider was read");
  return provider;
}

const host = { AI_PROVIDER_X_BASE_URL: "https://host.test/v1" };
const azureHost = { AI_PROVIDER_X_BASE_URL: "https://r.openai.azure.com/openai/v1" };
const classicAzure = { AI_PROVIDER_X_BASE_URL: "https://r.openai.azure.com", AI_PROVIDER_X_API_VERSION: "2024-10-21" };
const bedrockHost = { AI_PROVIDER_X_BASE_URL: "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1" };
const bearer = { authorization: "Bearer k" };
const azureKey = { "api-key": "k" };

/** Addresses from the documentation that each kind's module cites. */
describe("an endpoint's address and key", () => {
  test.for<[KindName, Record<string, string>, Record<string, string>, Partial<Record<Endpoint, string>>]>([
    [
      "openai",
      {},
      bearer,
      {
        chat: "https://api.openai.com/v1/chat/completions",
        responses: "https://api.openai.com/v1/responses",
        embeddings: "https://api.openai.com/v1/embeddings",
      },
    ],
    [
      "azure",
      azureHost,
      azureKey,
      {
        chat: "https://r.openai.azure.com/openai/v1/chat/completions",
        responses: "https://r.openai.azure.com/openai/v1/responses",
        embeddings: "https://r.openai.azure.com/openai/v1/embeddings",
      },
    ],
    [
      "azure",
      classicAzure,
      azureKey,
      {
        chat: "https://r.openai.azure.com/openai/deployments/m%2F1/chat/completions?api-version=2024-10-21",
        responses: "https://r.openai.azure.com/openai/responses?api-version=2024-10-21",
        embeddings: "https://r.openai.azure.com/openai/deployments/m%2F1/embeddings?api-version=2024-10-21",
      },
    ],
    [
      "anthropic",
      {},
      { "x-api-key": "k", "anthropic-version": "2023-06-01" },
      {
        messages: "https://api.anthropic.com/v1/messages",
        count_tokens: "https://api.anthropic.com/v1/messages/count_tokens",
      },
    ],
    [
      "mistral",
      {},
      bearer,
      { chat: "https://api.mistral.ai/v1/chat/completions", embeddings: "https://api.mistral.ai/v1/embeddings" },
    ],
    [
      "deepseek",
      {},
      bearer,
      { chat: "https://api.deepseek.com/chat/completions", responses: "https://api.deepseek.com/responses" },
    ],
    [
      "groq",
      {},
      bearer,
      {
        chat: "https://api.groq.com/openai/v1/chat/completions",
        responses: "https://api.groq.com/openai/v1/responses",
      },
    ],
    [
      "xai",
      {},
      bearer,
      {
        chat: "https://api.x.ai/v1/chat/completions",
        responses: "https://api.x.ai/v1/responses",
        embeddings: "https://api.x.ai/v1/embeddings",
      },
    ],
    ["moonshot", {}, bearer, { chat: "https://api.moonshot.ai/v1/chat/completions" }],
    [
      "openrouter",
      {},
      bearer,
      {
        chat: "https://openrouter.ai/api/v1/chat/completions",
        responses: "https://openrouter.ai/api/v1/responses",
        embeddings: "https://openrouter.ai/api/v1/embeddings",
      },
    ],
    [
      "together",
      {},
      bearer,
      { chat: "https://api.together.xyz/v1/chat/completions", embeddings: "https://api.together.xyz/v1/embeddings" },
    ],
    ["perplexity", {}, bearer, { chat: "https://api.perplexity.ai/chat/completions" }],
    [
      "bedrock",
      bedrockHost,
      bearer,
      {
        chat: "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/chat/completions",
        responses: "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/responses",
      },
    ],
    ...(["vllm", "llama-cpp", "ollama", "openai-compatible"] as const).map(
      (kind): [KindName, Record<string, string>, Record<string, string>, Partial<Record<Endpoint, string>>] => [
        kind,
        host,
        bearer,
        {
          chat: "https://host.test/v1/chat/completions",
          responses: "https://host.test/v1/responses",
          embeddings: "https://host.test/v1/embeddings",
        },
      ],
    ),
  ])(
    "an endpoint of the kind %s with the settings %o has the documented address and key",
    ([kind, more, headers, urls]) => {
      const provider = providerOf(kind, more);
      expect(Object.keys(provider.kind.endpoints)).toEqual(Object.keys(urls));
      for (const [endpoint, url] of Object.entries(urls) as [Endpoint, string][])
        expect(createModelAddress(provider, { endpoint, model: "m/1" })).toEqual({ url, headers });
    },
  );

  test("Gemini's own endpoint has a different address and key header than its OpenAI-compatible endpoints", () => {
    const gemini = providerOf("gemini");
    const base = "https://generativelanguage.googleapis.com/v1beta";
    const at = (endpoint: Endpoint) => createModelAddress(gemini, { endpoint, model: "m/1" });
    expect(at("chat")).toEqual({ url: `${base}/openai/chat/completions`, headers: bearer });
    expect(at("embeddings")).toEqual({ url: `${base}/openai/embeddings`, headers: bearer });
    expect(at("speech")).toEqual({
      url: `${base}/models/m%2F1:generateContent`,
      headers: { "x-goog-api-key": "k" },
    });
    expect(() => at("responses")).toThrow("no endpoint responses");
  });

  test("an endpoint gets no key header if the provider has no key", () => {
    const local = { ...host, AI_PROVIDER_X_API_KEY: "" };
    expect(createModelAddress(providerOf("ollama", local), { endpoint: "chat", model: "m" }).headers).toEqual({});
  });

  test("escapes any model name in an endpoint's address", () => {
    const address = createModelAddress(providerOf("azure", classicAzure), { endpoint: "chat", model: "$&?x=1#" });
    expect(address.url).toContain("/deployments/%24%26%3Fx%3D1%23/chat/completions?api-version=2024-10-21");
  });
});

const hints = {
  metadata: { a: "b" },
  modalities: ["text"],
  prompt_cache_key: "c",
  safety_identifier: "s",
  service_tier: "default",
  store: false,
  user: "u",
};
const sentHints = { ...hints, prompt_cache_key: "w:c" };
const call = { id: "call00001", type: "function", function: { name: "f", arguments: "{}" } };
/** An assistant message with fields from several providers' APIs. */
const turn = {
  role: "assistant",
  content: null,
  refusal: "no",
  prefix: false,
  reasoning: "r",
  reasoning_content: "rc",
  reasoning_details: [{ type: "reasoning.text", text: "r" }],
  extra_content: { google: { thought: true } },
  tool_calls: [{ ...call, index: 0, extra_content: { google: { thought_signature: "sig" } } }],
};
const kept = { role: "assistant", content: null, tool_calls: [call] };

function sent(provider: Provider, asked: object) {
  const chat = readChat({ model: "m", messages: [{ role: "user", content: "hello" }], ...asked }, 100);
  const route = { position: 1, provider: "x", model: "upstream", prices: [] };
  return JSON.parse(chatProviderRequest(chat, { route, provider, workspaceId: "w" }).body);
}

type Sent = { limit: string; stream_options?: object; hints: object; seed?: string; turn: object; developer?: string };
const usage = { include_usage: true };
const obfuscation = { include_usage: true, include_obfuscation: false };
const { metadata, ...withoutMetadata } = sentHints;
const { modalities, prompt_cache_key, safety_identifier, user } = sentHints;
const asItCame: Sent = { limit: "max_tokens", stream_options: usage, hints: sentHints, turn };

describe("chat requests to each kind of provider", () => {
  test.for<[KindName, Record<string, string>, Sent]>([
    // https://platform.openai.com/docs/api-reference/chat/create, github.com/QwenLM/qwen-code/issues/243
    [
      "openai",
      {},
      {
        limit: "max_completion_tokens",
        stream_options: obfuscation,
        hints: withoutMetadata,
        turn: { ...kept, refusal: "no" },
      },
    ],
    [
      "azure",
      azureHost,
      {
        limit: "max_completion_tokens",
        stream_options: obfuscation,
        hints: withoutMetadata,
        turn: { ...kept, refusal: "no" },
      },
    ],
    // Gemini rejects unknown fields with "Unknown name": github.com/ed-donner/agents/issues/45,
    // github.com/Routstr/routstr-core/issues/505.
    [
      "gemini",
      {},
      {
        limit: "max_completion_tokens",
        stream_options: usage,
        hints: {},
        turn: {
          ...kept,
          extra_content: { google: { thought: true } },
          tool_calls: [{ ...call, extra_content: { google: { thought_signature: "sig" } } }],
        },
      },
    ],
    // Mistral rejects unknown fields with "extra_forbidden": github.com/editor-code-assistant/eca/issues/231,
    // github.com/Gitlawb/openclaude/issues/739.
    [
      "mistral",
      {},
      {
        limit: "max_tokens",
        hints: {},
        seed: "random_seed",
        turn: { ...kept, prefix: false },
        developer: "system",
      },
    ],
    // https://api-docs.deepseek.com/guides/thinking_mode
    [
      "deepseek",
      {},
      {
        limit: "max_tokens",
        stream_options: usage,
        hints: sentHints,
        turn: { ...kept, prefix: false, reasoning_content: "rc" },
        developer: "system",
      },
    ],
    // "property … is unsupported": github.com/janhq/jan/issues/8136, github.com/fanenr/chatbot/issues/21.
    [
      "groq",
      {},
      {
        limit: "max_completion_tokens",
        stream_options: usage,
        hints: { user },
        turn: { ...kept, reasoning: "r" },
      },
    ],
    // https://docs.x.ai/developers/rest-api-reference/inference
    [
      "xai",
      {},
      {
        limit: "max_completion_tokens",
        stream_options: usage,
        hints: sentHints,
        turn: { ...kept, reasoning_content: "rc" },
      },
    ],
    // github.com/MoonshotAI/kimi-cli, packages/kosong/src/kosong/chat_provider/kimi.py
    [
      "moonshot",
      {},
      {
        limit: "max_tokens",
        stream_options: usage,
        hints: { prompt_cache_key, safety_identifier },
        turn: { ...kept, reasoning_content: "rc" },
        developer: "system",
      },
    ],
    // https://openrouter.ai/docs/use-cases/reasoning-tokens
    ["openrouter", {}, asItCame],
    // github.com/togethercomputer/openapi, ChatCompletionRequest
    ["together", {}, { limit: "max_tokens", hints: {}, turn, developer: "system" }],
    // https://docs.perplexity.ai/docs/sonar/openai-compatibility
    ["perplexity", {}, { limit: "max_tokens", hints: {}, turn, developer: "system" }],
    // https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html
    [
      "bedrock",
      bedrockHost,
      {
        limit: "max_completion_tokens",
        stream_options: usage,
        hints: {
          metadata,
          modalities,
          prompt_cache_key,
          safety_identifier,
          service_tier: "default",
          store: false,
          user,
        },
        turn: { ...kept, refusal: "no" },
      },
    ],
    // https://docs.ollama.com/api/openai-compatibility lists max_tokens and stream_options.
    ["ollama", host, asItCame],
    ["vllm", host, asItCame],
    ["llama-cpp", host, asItCame],
    ["openai-compatible", host, { ...asItCame, stream_options: undefined }],
  ])("a chat request to %s contains only the members that this kind of provider supports", ([kind, more, expected]) => {
    const messages = [
      { role: "developer", content: "be brief" },
      { role: "user", content: "hello" },
      turn,
      { role: "tool", tool_call_id: "call00001", content: "1" },
    ];
    const asked = {
      messages,
      max_tokens: 9,
      seed: 7,
      ...hints,
      stream: true,
      stream_options: { include_usage: false, include_obfuscation: false },
    };
    expect(sent(providerOf(kind, more), asked)).toEqual({
      model: "upstream",
      messages: [
        { role: expected.developer ?? "developer", content: "be brief" },
        messages[1],
        expected.turn,
        messages[3],
      ],
      [expected.limit]: 9,
      [expected.seed ?? "seed"]: 7,
      ...expected.hints,
      stream: true,
      ...(expected.stream_options ? { stream_options: expected.stream_options } : {}),
    });
  });

  test.for(Object.keys(kinds) as KindName[])(
    "for a minimal chat, the request to %s adds only an output limit, and for openai a service tier",
    (kind) => {
      const more = kind === "azure" ? azureHost : kinds[kind].baseUrl ? {} : host;
      const provider = providerOf(kind, more);
      const tier = kind === "openai" ? { service_tier: "default" } : {};
      const body = { model: "upstream", messages: [{ role: "user", content: "hello" }], ...tier };
      expect(sent(provider, {})).toEqual({ ...body, [provider.kind.outputLimit]: 2_048 });
    },
  );

  test.for<KindName>(["deepseek", "moonshot"])(
    "a chat to %s has a reasoning_content member in every turn that calls tools",
    (kind) => {
      const messages = [{ role: "user", content: "hello" }, kept, { role: "assistant", content: "hi" }];
      const [, calling, answering] = sent(providerOf(kind), { messages }).messages;
      expect(calling).toEqual({ ...kept, reasoning_content: "" });
      expect(answering).toEqual({ role: "assistant", content: "hi" });
    },
  );

  test.for(["auto", "default"])(
    "a chat with the tier %s requests the default tier, or no tier if the provider's kind has none",
    (service_tier) => {
      expect(sent(providerOf("groq"), { service_tier })).not.toHaveProperty("service_tier");
      expect(sent(providerOf("openai"), { service_tier }).service_tier).toBe("default");
    },
  );

  // github.com/nearai/ironclaw/issues/1241, github.com/anomalyco/opencode/issues/1680
  test.for([
    ["call_PTLP8xhu3uwZk4l3nlnrrJha", "3nlnrrJha"],
    ["turn1_0", "000turn10"],
    ["D681PevKs", "D681PevKs"],
  ])("a chat request to Mistral makes the tool call id %s valid, in both the call and its result", ([id, expected]) => {
    const calling = { ...kept, tool_calls: [{ ...call, id }] };
    const messages = [{ role: "user", content: "hello" }, calling, { role: "tool", tool_call_id: id, content: "1" }];
    expect(sent(providerOf("mistral"), { messages }).messages.slice(1)).toEqual([
      { ...kept, tool_calls: [{ ...call, id: expected }] },
      { role: "tool", tool_call_id: expected, content: "1" },
    ]);
    expect(sent(providerOf("openai"), { messages }).messages).toEqual(messages);
  });
});

test("an embeddings request leaves out the `user` field for a kind that refuses it", () => {
  const asked = embeddingsSurface.read({ model: "m", input: "hello", user: "u" }, 100, new Headers());
  const route = { position: 1, provider: "x", model: "upstream", prices: [] };
  const body = (kind: KindName) =>
    JSON.parse(embeddingsSurface.request(asked, { route, provider: providerOf(kind), workspaceId: "w" }).body);
  expect(body("mistral")).toEqual({ model: "upstream", input: "hello" });
  expect(body("openai")).toEqual({ model: "upstream", input: "hello", user: "u" });
});

test("the table in docs/providers.md agrees with each kind's module", () => {
  const guide = readFileSync(new URL("../../../../../docs/providers.md", import.meta.url), "utf8");
  const table = guide.split(/^## /m).find((section) => section.startsWith("Kinds\n")) ?? "";
  const rows = new Map(
    [...table.matchAll(/^\| `([a-z-]+)` \| (.*) \|$/gm)].map(([, name, rest = ""]) => [name, rest.split(" | ")]),
  );
  expect([...rows.keys()]).toEqual(Object.keys(kinds));
  for (const { name, baseUrl, keyRequired, endpoints, outputLimit, streamOptions } of Object.values(kinds)) {
    const [address, key, ...others] = rows.get(name) ?? [];
    expect([name, address]).toEqual([
      name,
      expect.stringMatching(baseUrl ? `^\`${baseUrl}\` by default` : "^required"),
    ]);
    expect([name, key?.includes("optional")]).toEqual([name, !keyRequired]);
    for (const { keyHeader } of Object.values(endpoints)) expect(key?.toLowerCase()).toContain(keyHeader);
    expect(others.slice(0, 3)).toEqual([
      Object.keys(endpoints).join(", "),
      `\`${outputLimit}\``,
      streamOptions.length > 0 ? "yes" : "no",
    ]);
  }
});
