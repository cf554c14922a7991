import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { selfSigned } from "@gatehousehq/local-stack/contract/support/certificate";
import { afterEach, describe, expect, test } from "vitest";
import { readProviders } from "../../../supabase/functions/_gateway/providers/provider-settings.ts";
import { checkProviders } from "./provider-checks.ts";
import { checkRoutes, groupByProvider, type RoutedModel } from "./route-checks.ts";

type Answer = { status?: number; body?: unknown; type?: string; location?: string };
type Seen = { method: string; path: string; headers: IncomingMessage["headers"]; body: string };

const key = "sk-a-key-that-is-never-printed";
const bearer = `Bearer ${key}`;
const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(server: Server, scheme = "http"): Promise<string> {
  open.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a provider with these responses; all other requests get nginx's 404. */
async function serve(answers: Record<string, Answer | ((request: Seen) => Answer)>) {
  const seen: Seen[] = [];
  const origin = await listen(createServer(answering(answers, seen)));
  return { origin, seen };
}

function answering(answers: Record<string, Answer | ((request: Seen) => Answer)>, seen: Seen[] = []): RequestListener {
  return async (request, response) => {
    const { method = "", url: path = "", headers } = request;
    const asked = { method, path, headers, body: await text(request) };
    seen.push(asked);
    const found = answers[`${method} ${path}`] ?? page(404, "Not Found");
    const {
      status = 200,
      body,
      type = "application/json",
      location,
    } = typeof found === "function" ? found(asked) : found;
    response.writeHead(status, { "content-type": type, ...(location && { location }) });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };
}

const page = (status: number, title: string): Answer => ({
  status,
  type: "text/html",
  body: `<html><head><title>${status} ${title}</title></head><body>never printed</body></html>`,
});
const error = (status: number, more: object): Answer => ({
  status,
  body: { error: { message: "never printed", ...more } },
});
/** https://platform.openai.com/docs/api-reference/models/list */
const list = (owner: string, ...ids: string[]): Answer => ({
  body: { object: "list", data: ids.map((id) => ({ id, object: "model", created: 1_700_000_000, owned_by: owner })) },
});

const modelOf = (provider: string, model: string, more: Partial<RoutedModel> = {}): RoutedModel => ({
  id: `our/${model}`,
  kind: "chat",
  prices: [{ providerId: provider, serviceTier: "default", minInputTokens: 0, current: true }],
  routes: [
    { model_id: `our/${model}`, position: 1, provider_id: provider, provider_model: model, tier_multipliers: {} },
  ],
  granted: true,
  ...more,
});

/** Runs the checks as the doctor does, for one provider `x`. */
async function examine(settings: Record<string, string>, models: RoutedModel[], limits?: { providerMs: number }) {
  const named = Object.entries(settings).map(([name, value]) => [`AI_PROVIDER_X_${name}`, value]);
  const providers = readProviders(Object.fromEntries(named), { local: true });
  const findings = [
    ...(await checkProviders(providers, groupByProvider(models, providers), limits)),
    ...checkRoutes(models, providers),
  ];
  const printed = JSON.stringify(findings);
  expect(printed).not.toContain(key);
  expect(printed).not.toContain("never printed");
  return findings.map(({ level, about, says }) => `${level} ${about}: ${says}`);
}

const healthyRoutes = "ok models: 1 enabled, each route with a provider and a price";

describe("a provider with a wrong configuration", () => {
  const gpt = [modelOf("x", "gpt-5.6")];
  const named = (line: string) => [expect.stringMatching(new RegExp(`^${line}`)), healthyRoutes];

  // `fetch` refuses port 9.
  test.each([0, 9])("reports a base URL where nothing listens, with port %d", async (port) => {
    const closed = createServer();
    const origin = port ? `http://127.0.0.1:${port}` : await listen(closed);
    closed.close();
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named("fail provider x: address: nothing listens at .*AI_PROVIDER_X_BASE_URL"));
  });

  test("reports a provider that closes the connection", async () => {
    const origin = await listen(createServer(({ socket }) => socket.destroy()));
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named("fail provider x: address: .* closes the connection without an answer"));
  });

  // RFC 6761 section 6.4: .invalid never resolves.
  test("reports a provider's host that does not exist", async () => {
    const found = await examine({ KIND: "openai", BASE_URL: "https://models.invalid/v1", API_KEY: key }, gpt);
    expect(found).toEqual(named("fail provider x: address: the host of https://models.invalid/v1 is not in the DNS"));
  });

  test("reports a base URL that lacks /v1, and says where the API is", async () => {
    const { origin } = await serve({ "GET /v1/models": list("vllm", "gpt-5.6") });
    const found = await examine({ KIND: "vllm", BASE_URL: origin, API_KEY: key }, gpt);
    expect(found).toEqual(
      named(`fail provider x: address: at ${origin} there is a web page \\(404\\). The API is at ${origin}/v1:`),
    );
  });

  // FastAPI, on which vLLM is built, returns {"detail":"Not Found"}.
  test("reports a base URL with a wrong path", async () => {
    const { origin } = await serve({ "GET /v2/models": { status: 404, body: { detail: "Not Found" } } });
    const found = await examine({ KIND: "vllm", BASE_URL: `${origin}/v2` }, gpt);
    expect(found).toEqual(
      named(
        "fail provider x: address: at .*/v2 there is no API \\(404\\). For kind vllm the base URL usually ends in /v1. Correct ",
      ),
    );
  });

  test("reports a server that does not serve the provider's API, even if its base URL ends in /v1", async () => {
    const { origin } = await serve({});
    const found = await examine({ KIND: "vllm", BASE_URL: `${origin}/v1` }, gpt);
    expect(found).toEqual(
      named("fail provider x: address: at .*/v1 there is a web page \\(404\\). Correct AI_PROVIDER_X_BASE_URL or"),
    );
  });

  test("reports a base URL that leads to a website, and says where the API is", async () => {
    const { origin } = await serve({ "GET /models": page(200, "Models"), "GET /api/v1/models": list("", "gpt-5.6") });
    const found = await examine({ KIND: "openrouter", BASE_URL: origin, API_KEY: key }, gpt);
    expect(found).toEqual(named(`fail provider x: address: .* a web page \\(200\\). The API is at ${origin}/api/v1`));
  });

  test.each(["/chat/completions", "/responses", "/embeddings", "/models", "/completions"])(
    "reports a base URL that ends in %s, without sending a request",
    async (path) => {
      const { origin, seen } = await serve({});
      const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1${path}`, API_KEY: key }, gpt);
      expect(found).toEqual(
        named(`fail provider x: address: AI_PROVIDER_X_BASE_URL ends in ${path}.* Set it to ${origin}/v1\\.`),
      );
      expect(seen).toEqual([]);
    },
  );

  test("reports a redirect without following it", async () => {
    const { origin, seen } = await serve({
      "GET /v1/models": { status: 301, location: "https://elsewhere.invalid/never-printed" },
    });
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named("fail provider x: address: .* redirects \\(301\\) to another host"));
    expect(found.join()).not.toContain("elsewhere");
    expect(seen).toHaveLength(1);
  });

  test.each([
    ["https://localhost:4443/v1/models", "to https://"],
    ["http://localhost:1/v1/models", "to another port"],
    ["/v2/models", "to another path"],
  ])("reports a redirect on the same host: %s", async (location, where) => {
    const { origin } = await serve({ "GET /v1/models": { status: 308, location } });
    const base = origin.replace("127.0.0.1", "localhost");
    const found = await examine({ KIND: "openai", BASE_URL: `${base}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named(`fail provider x: address: .* redirects \\(308\\) ${where}: set`));
  });

  test.each([
    [100, "ok provider x: it answers as openai and has 1 of 1 routed models"],
    [10_000, "fail provider x: address: .* does not answer in time"],
  ])("reports whether a provider that answers after %d ms meets the limit of one second", async (afterMs, says) => {
    const body = JSON.stringify(list("openai", "gpt-5.6").body);
    const origin = await listen(createServer((_, response) => setTimeout(() => response.end(body), afterMs).unref()));
    const settings = { KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key };
    expect(await examine(settings, gpt, { providerMs: 1_000 })).toEqual(named(says));
  });

  test("reports a certificate that no public authority issued", async () => {
    const { key: tlsKey, certificate } = selfSigned(["localhost"]);
    const server = createTlsServer(
      { key: tlsKey, cert: certificate },
      answering({ "GET /v1/models": list("", "gpt-5.6") }),
    );
    const origin = await listen(server, "https");
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(
      named("fail provider x: address: the TLS certificate of .* is not signed by a public authority"),
    );
  });

  test("reports an https base URL of a server that does not use TLS", async () => {
    const { origin } = await serve({});
    const settings = { KIND: "openai", BASE_URL: `${origin.replace("http", "https")}/v1`, API_KEY: key };
    expect(await examine(settings, gpt)).toEqual(named("fail provider x: address: .* does not answer with TLS"));
  });

  // OpenAI, https://platform.openai.com/docs/guides/error-codes; xAI, github.com/continuedev/continue/issues/10778;
  // Gemini, github.com/google/timesketch/pull/3703. Perplexity answers 401 with an HTML page.
  test.each<[string, string, string, Answer]>([
    ["openai", "/v1", "/models", error(401, { type: "invalid_request_error", code: "invalid_api_key" })],
    [
      "xai",
      "/v1",
      "/models",
      {
        status: 400,
        body: { code: "Client specified an invalid argument", error: "Incorrect API key provided: na***ys." },
      },
    ],
    [
      "gemini",
      "/v1beta",
      "/openai/models",
      {
        status: 400,
        body: [
          {
            error: {
              code: 400,
              message: "API key not valid. Please pass a valid API key.",
              status: "INVALID_ARGUMENT",
            },
          },
        ],
      },
    ],
    ["perplexity", "", "/chat/completions", page(401, "Authorization Required")],
  ])("reports a revoked key of %s", async (kind, base, path, answer) => {
    const method = kind === "perplexity" ? "POST" : "GET";
    const { origin } = await serve({ [`${method} ${base}${path}`]: answer });
    const found = await examine({ KIND: kind, BASE_URL: `${origin}${base}`, API_KEY: key }, gpt);
    expect(found).toEqual(named("fail provider x: key: it refuses AI_PROVIDER_X_API_KEY \\(4..\\)"));
  });

  // OpenRouter's model list is public, so `GET /key` checks the key:
  // https://openrouter.ai/docs/api/api-reference/api-keys/get-current-api-key
  test("reports a revoked openrouter key, although openrouter's model list is public", async () => {
    const { origin } = await serve({
      "GET /api/v1/models": { body: { data: [{ id: "gpt-5.6" }] } },
      "GET /api/v1/key": error(401, { code: 401 }),
    });
    const found = await examine({ KIND: "openrouter", BASE_URL: `${origin}/api/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named("fail provider x: key: it refuses AI_PROVIDER_X_API_KEY \\(401\\)"));
  });

  test("reports a key that belongs to another provider", async () => {
    const { origin } = await serve({ "GET /v1/models": error(401, { code: "invalid_api_key" }) });
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: `gsk_${key}` }, gpt);
    expect(found).toEqual(named("fail provider x: key: .* It looks like a key of groq"));
  });

  test("reports a self-hosted server that requires a key although none is set", async () => {
    const { origin } = await serve({ "GET /v1/models": { status: 401, body: { error: "Unauthorized" } } });
    const found = await examine({ KIND: "vllm", BASE_URL: `${origin}/v1` }, gpt);
    expect(found).toEqual(named("fail provider x: key: it needs one \\(401\\). Set AI_PROVIDER_X_API_KEY"));
  });

  // A restricted OpenAI key without the scope api.model.read.
  test("reports a key without permission", async () => {
    const { origin } = await serve({ "GET /v1/models": error(403, { type: "invalid_request_error", code: null }) });
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named("fail provider x: key: it denies AI_PROVIDER_X_API_KEY permission \\(403\\)"));
  });

  test("reports a model that the provider lacks, with its route", async () => {
    const { origin } = await serve({ "GET /v1/models": list("openai", "gpt-5.6-mini") });
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual([
      "ok provider x: it answers as openai and has 0 of 1 routed models.",
      expect.stringMatching(
        /^fail models: model: route 1 of our\/gpt-5.6: x has no model gpt-5.6\. Correct provider_model/,
      ),
      healthyRoutes,
    ]);
  });

  test.each([
    ["openai's, set as ollama", "ollama", list("openai", "gpt-5.6"), "openai"],
    ["ollama's, set as openai", "openai", list("library", "gpt-5.6:latest"), "ollama"],
    ["openai's, set as openrouter", "openrouter", list("openai", "gpt-5.6"), "openai"],
    ["openai's, set as gemini", "gemini", list("openai", "gpt-5.6"), "openai"],
    [
      "openai's, set as azure",
      "azure",
      ({ headers }: Seen) => (headers.authorization ? list("openai", "gpt-5.6") : error(401, {})),
      "openai",
    ],
    ["vllm's, set as mistral", "mistral", list("vllm", "gpt-5.6"), "vllm"],
    ["together's, set as groq", "groq", { body: [{ id: "gpt-5.6", object: "model", type: "chat" }] }, "together"],
    [
      "ollama's native list, set as openai",
      "openai",
      { body: { models: [{ name: "gpt-5.6", model: "gpt-5.6" }] } },
      "ollama",
    ],
    [
      "gemini's native list, set as openai",
      "openai",
      { body: { models: [{ name: "models/gemini-3-flash" }] } },
      "gemini",
    ],
  ])("detects a wrong provider kind from its model list: %s", async (_, kind, answer, looksLike) => {
    const { origin } = await serve({ "GET /v1/models": answer, "POST /v1/chat/completions": error(401, {}) });
    const found = await examine({ KIND: kind, BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(
      named(
        `fail provider x: kind: .* answers as ${looksLike} does, and the kind is ${kind}. Set AI_PROVIDER_X_KIND=${looksLike}`,
      ),
    );
  });

  test("reports a missing API version for azure's classic API, and a superfluous one for azure's v1 API", async () => {
    const classic = await examine({ KIND: "azure", BASE_URL: "https://r.openai.azure.com", API_KEY: key }, gpt);
    expect(classic).toEqual(named("fail provider x: kind: azure needs a version.*AI_PROVIDER_X_API_VERSION"));
    const v1 = {
      KIND: "azure",
      BASE_URL: "https://r.openai.azure.com/openai/v1",
      API_KEY: key,
      API_VERSION: "2024-10-21",
    };
    expect(await examine(v1, gpt)).toEqual(named("fail provider x: kind: azure's v1 API takes no version"));
  });

  test("reports an azure base URL that contains a deployment's path", async () => {
    const base = "https://r.openai.azure.com/openai/deployments/gpt";
    const settings = { KIND: "azure", BASE_URL: `${base}/chat/completions`, API_KEY: key, API_VERSION: "2024-10-21" };
    expect(await examine(settings, gpt)).toEqual(
      named("fail provider x: address: .* Set it to https://r.openai.azure.com\\."),
    );
  });

  test("warns of a provider that no route uses", async () => {
    const { origin } = await serve({ "GET /v1/models": list("openai", "gpt-5.6") });
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, []);
    expect(found).toContainEqual(expect.stringMatching(/^warn provider x: no route uses it/));
  });

  // https://api-docs.deepseek.com/quick_start/error_codes; OpenAI's insufficient_quota is a 429.
  test.each<[string, Answer, string]>([
    ["out of credit (402)", error(402, { message: "Insufficient Balance" }), "credit: "],
    ["out of credit (429)", error(429, { code: "insufficient_quota" }), "credit: "],
    ["rate limited (429)", error(429, { code: "rate_limit_exceeded" }), "limit: "],
    ["rate limited by Azure (429)", error(429, { message: "See https://aka.ms/oai/quotaincrease" }), "limit: "],
  ])("warns of a provider account that is %s", async (_, answer, says) => {
    const { origin } = await serve({ "GET /v1/models": { ...answer, body: JSON.stringify(answer.body) } });
    const found = await examine({ KIND: "deepseek", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named(`warn provider x: ${says}`));
  });

  test.each([500, 502, 503])("reports a provider that returns %d", async (status) => {
    const { origin } = await serve({ "GET /v1/models": page(status, "down") });
    const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, gpt);
    expect(found).toEqual(named(`fail provider x: service: it fails \\(${status}\\)`));
  });
});

describe("a healthy provider", () => {
  const has = (kind: string, more = "") => [
    `ok provider x: it answers as ${kind} and has 1 of 1 routed models.${more}`,
    healthyRoutes,
  ];

  // The format of each model list is cited in the module of the provider kind.
  test.each<[string, string, string, string, Answer]>([
    ["openai", "/v1", "/models", "gpt-5.6", list("system", "gpt-5.6")],
    ["groq", "/openai/v1", "/models", "openai/gpt-oss-20b", list("OpenAI", "openai/gpt-oss-20b")],
    ["deepseek", "", "/models", "deepseek-chat", list("deepseek", "deepseek-chat", "deepseek-reasoner")],
    ["moonshot", "/v1", "/models", "kimi-k2.5", list("moonshot", "kimi-k2.5")],
    [
      "mistral",
      "/v1",
      "/models",
      "mistral-large-latest",
      {
        body: {
          object: "list",
          data: [{ id: "mistral-large-2512", aliases: ["mistral-large-latest"], owned_by: "mistralai" }],
        },
      },
    ],
    [
      "together",
      "/v1",
      "/models",
      "openai/gpt-oss-20b",
      { body: [{ id: "openai/gpt-oss-20b", object: "model", type: "chat" }] },
    ],
    ["gemini", "/v1beta", "/openai/models", "gemini-3-flash", list("google", "models/gemini-3-flash")],
    ["gemini", "/v1beta", "/openai/models", "models/gemini-3-flash", list("google", "models/gemini-3-flash")],
    ["vllm", "/v1", "/models", "Qwen/Qwen3-8B", list("vllm", "Qwen/Qwen3-8B")],
    ["openai-compatible", "/v1", "/models", "any", list("openai", "any")],
    ["bedrock", "/v1", "/models", "openai.gpt-oss-20b", list("system", "openai.gpt-oss-20b")],
  ])(
    "finds a model in a provider's model list: kind %s, list at %s%s, model %s",
    async (kind, base, path, model, answer) => {
      const { origin, seen } = await serve({ [`GET ${base}${path}`]: answer });
      const found = await examine({ KIND: kind, BASE_URL: `${origin}${base}`, API_KEY: key }, [modelOf("x", model)]);
      expect(found).toEqual(has(kind));
      expect(seen.map(({ method, headers }) => [method, headers.authorization])).toEqual([["GET", bearer]]);
    },
  );

  test.each(["llama3", "llama3:latest"])("finds an ollama provider's model under the name %s", async (model) => {
    const { origin } = await serve({ "GET /v1/models": list("library", "llama3:latest") });
    expect(await examine({ KIND: "ollama", BASE_URL: `${origin}/v1` }, [modelOf("x", model)])).toEqual(has("ollama"));
  });

  // https://platform.claude.com/docs/en/api/models/list
  test("queries a provider of kind anthropic with Anthropic's own headers, and finds its model", async () => {
    const { origin, seen } = await serve({
      "GET /v1/models?limit=1000": { body: { data: [{ type: "model", id: "claude-opus-5" }], has_more: false } },
    });
    const found = await examine({ KIND: "anthropic", BASE_URL: `${origin}/v1`, API_KEY: key }, [
      modelOf("x", "claude-opus-5"),
    ]);
    expect(found).toEqual(has("anthropic"));
    expect(seen.map(({ headers }) => [headers["x-api-key"], headers["anthropic-version"]])).toEqual([
      [key, "2023-06-01"],
    ]);
  });

  test("finds an xai model that the provider lists only as an alias", async () => {
    const models = [{ id: "grok-3", object: "model", owned_by: "xai", aliases: ["grok-3-latest"] }];
    const { origin } = await serve({
      "GET /v1/models": list("xai", "grok-3"),
      "GET /v1/language-models": { body: { models } },
    });
    const found = await examine({ KIND: "xai", BASE_URL: `${origin}/v1`, API_KEY: key }, [
      modelOf("x", "grok-3-latest"),
    ]);
    expect(found).toEqual(has("xai"));
  });

  test("finds openrouter's routing variants and embedding models, and checks the key", async () => {
    const { origin, seen } = await serve({
      "GET /api/v1/models": { body: { data: [{ id: "openai/gpt-5.2" }, { id: "qwen/qwen3:free" }] } },
      "GET /api/v1/embeddings/models": { body: { data: [{ id: "openai/text-embedding-3-small" }] } },
      "GET /api/v1/key": { body: { data: { label: "sk-or-v1-au7...890", limit: 100, limit_remaining: 74.5 } } },
    });
    const models = ["openai/gpt-5.2:nitro", "qwen/qwen3:free", "openai/text-embedding-3-small"].map((m) =>
      modelOf("x", m),
    );
    const found = await examine({ KIND: "openrouter", BASE_URL: `${origin}/api/v1`, API_KEY: key }, models);
    expect(found[0]).toBe("ok provider x: it answers as openrouter and has 3 of 3 routed models.");
    expect(seen.filter(({ path }) => path.endsWith("/key")).map(({ headers }) => headers.authorization)).toEqual([
      bearer,
    ]);
  });

  test("reports openrouter as failing if its second model list fails, without reporting models as missing", async () => {
    const { origin } = await serve({
      "GET /api/v1/models": { body: { data: [{ id: "m" }] } },
      "GET /api/v1/embeddings/models": error(503, {}),
      "GET /api/v1/key": { body: { data: { limit: null } } },
    });
    const settings = { KIND: "openrouter", BASE_URL: `${origin}/api/v1`, API_KEY: key };
    const found = await examine(settings, [modelOf("x", "an/embedding")]);
    expect(found).toEqual([expect.stringMatching(/^fail provider x: service: it fails \(503\)/), healthyRoutes]);
  });

  test.each([
    [0, "warn provider x: credit: the key's limit is used up"],
    [0.01, "ok provider x: it answers as openrouter"],
    [null, "ok provider x: it answers as openrouter"],
  ])("judges openrouter by the credit left on its key: %s dollars", async (left, says) => {
    const { origin } = await serve({
      "GET /api/v1/models": { body: { data: [{ id: "m" }] } },
      "GET /api/v1/key": { body: { data: { limit: 100, limit_remaining: left } } },
    });
    const found = await examine({ KIND: "openrouter", BASE_URL: `${origin}/api/v1`, API_KEY: key }, [
      modelOf("x", "m"),
    ]);
    expect(found[0]).toContain(says);
  });

  // llama.cpp serves /v1/models without a key: get_public_endpoints of github.com/ggml-org/llama.cpp,
  // tools/server/server-http.cpp
  test("does not check a llama-cpp key, and only warns of a model that llama-cpp does not list", async () => {
    const { origin } = await serve({ "GET /v1/models": list("llamacpp", "/models/qwen.gguf") });
    const found = await examine({ KIND: "llama-cpp", BASE_URL: `${origin}/v1`, API_KEY: key }, [modelOf("x", "qwen")]);
    expect(found).toEqual([
      "ok provider x: it answers as llama-cpp and has 0 of 1 routed models. Its list is public, so the key is not checked.",
      expect.stringMatching(/^warn models: model: route 1 of our\/qwen: x does not list qwen/),
      healthyRoutes,
    ]);
  });
});

test.each([
  [8 * 1024 * 1024, "ok provider x: it answers as openai"],
  [8 * 1024 * 1024 + 1, "fail provider x: address: "],
])("accepts a provider's model list of up to 8 MiB: %d bytes", async (size, says) => {
  const { origin } = await serve({ "GET /v1/models": { body: JSON.stringify(list("openai", "m").body).padEnd(size) } });
  const found = await examine({ KIND: "openai", BASE_URL: `${origin}/v1`, API_KEY: key }, [modelOf("x", "m")]);
  expect(found[0]).toContain(says);
});

describe("a provider without a model list", () => {
  const answered = { body: { id: "c", object: "chat.completion", choices: [] } };

  test("checks azure's v1 API with one call per model, and reports a missing deployment", async () => {
    const { origin, seen } = await serve({
      "POST /openai/v1/chat/completions": ({ body }) =>
        JSON.parse(body).model === "there" ? answered : error(404, { code: "DeploymentNotFound" }),
    });
    const models = [modelOf("x", "there"), modelOf("x", "gone")];
    const found = await examine({ KIND: "azure", BASE_URL: `${origin}/openai/v1`, API_KEY: key }, models);
    expect(found).toEqual([
      "ok provider x: it has no list, so each model got a call of one token: 1 of 2 answer.",
      expect.stringMatching(/^fail models: model: route 1 of our\/gone: x has no deployment gone/),
      "ok models: 2 enabled, each route with a provider and a price",
    ]);
    expect(seen.map(({ headers }) => headers["api-key"])).toEqual([key, key]);
    expect(seen.map(({ body }) => JSON.parse(body).max_completion_tokens)).toEqual([1, 1]);
  });

  test("checks azure's classic API with one call per model", async () => {
    const { origin, seen } = await serve({
      "POST /openai/deployments/there/chat/completions?api-version=2024-10-21": answered,
    });
    const settings = { KIND: "azure", BASE_URL: origin, API_KEY: key, API_VERSION: "2024-10-21" };
    expect((await examine(settings, [modelOf("x", "there")]))[0]).toMatch(/^ok provider x: .* 1 of 1 answer/);
    expect(seen).toHaveLength(1);
  });

  // The doctor's limit of one output token can cause the error "Could not finish the message because max_tokens or
  // model output limit was reached."
  test("treats a model as existing even if it rejects the doctor's test request as invalid", async () => {
    const { origin } = await serve({
      "POST /openai/v1/chat/completions": error(400, { type: "invalid_request_error" }),
    });
    const found = await examine({ KIND: "azure", BASE_URL: `${origin}/openai/v1`, API_KEY: key }, [modelOf("x", "o9")]);
    expect(found[0]).toMatch(/^ok provider x: .* 1 of 1 answer/);
  });

  // Source of the error: github.com/bhdicaire/visioStencils/issues/3
  test("reports a model that perplexity does not have", async () => {
    const { origin } = await serve({ "POST /chat/completions": error(400, { type: "invalid_model", code: 400 }) });
    const found = await examine({ KIND: "perplexity", BASE_URL: origin, API_KEY: key }, [modelOf("x", "sonar-old")]);
    expect(found).toContainEqual(expect.stringMatching(/^fail models: model: .* x has no model sonar-old/));
  });

  // https://docs.aws.amazon.com/bedrock/latest/userguide/models-get-info.html: bedrock-runtime has no list.
  test.each(["bedrock", "openai-compatible"])(
    "checks a provider of kind %s with one call per model if it has no model list",
    async (kind) => {
      const { origin, seen } = await serve({
        "GET /openai/v1/models": { status: 404, body: { message: "UnknownOperation" } },
        "POST /openai/v1/chat/completions": answered,
      });
      const settings = { KIND: kind, BASE_URL: `${origin}/openai/v1`, API_KEY: key };
      expect((await examine(settings, [modelOf("x", "m")]))[0]).toMatch(/^ok provider x: .* 1 of 1 answer/);
      expect(seen.filter(({ method }) => method === "POST")).toHaveLength(1);
    },
  );

  test("reports a provider's fault only once even if it repeats for each model", async () => {
    const { origin } = await serve({});
    const models = [modelOf("x", "a"), modelOf("x", "b")];
    const found = await examine({ KIND: "azure", BASE_URL: `${origin}/openai/v1`, API_KEY: key }, models);
    expect(found.filter((line) => line.startsWith("fail"))).toEqual([
      expect.stringMatching(/^fail provider x: address: at .* there is a web page \(404\)/),
    ]);
  });

  test("sends no request to a provider without a model list if no route names a model", async () => {
    const { origin, seen } = await serve({});
    const found = await examine({ KIND: "azure", BASE_URL: `${origin}/openai/v1`, API_KEY: key }, []);
    expect(found[0]).toMatch(/^unseen provider x: not asked/);
    expect(seen).toEqual([]);
  });
});

test("queries all model providers concurrently", async () => {
  const slow: RequestListener = (_, response) => {
    setTimeout(() => response.end(JSON.stringify(list("openai", "m").body)), 700);
  };
  const origin = await listen(createServer(slow));
  const settings = ["A", "B", "C", "D"].flatMap((id) => [
    [`AI_PROVIDER_${id}_BASE_URL`, `${origin}/v1`],
    [`AI_PROVIDER_${id}_KIND`, "openai"],
    [`AI_PROVIDER_${id}_API_KEY`, key],
  ]);
  const began = performance.now();
  const found = await checkProviders(readProviders(Object.fromEntries(settings), { local: true }), undefined);
  expect(found.map(({ level, says }) => `${level} ${says}`)).toEqual(Array(4).fill("ok it answers as openai."));
  expect(performance.now() - began).toBeLessThan(2_000);
});

test("fails a provider whose hostname resolves to a private address, and sends no request to that provider", async () => {
  const { origin, seen } = await serve({ "GET /v1/models": list("openai", "m") });
  const [provider] = readProviders(
    { AI_PROVIDER_X_KIND: "openai", AI_PROVIDER_X_API_KEY: key, AI_PROVIDER_X_BASE_URL: `${origin}/v1` },
    { local: true },
  ).values();
  if (!provider) throw new Error("no provider was read");
  const baseUrl = provider.baseUrl.replace("127.0.0.1", "localhost");
  const found = await checkProviders(new Map([["x", { ...provider, baseUrl, allowPrivate: false }]]), undefined);
  expect(found).toEqual([
    expect.objectContaining({ level: "fail", says: expect.stringContaining("AI_PROVIDER_X_ALLOW_PRIVATE=on") }),
  ]);
  expect(seen).toEqual([]);
});
