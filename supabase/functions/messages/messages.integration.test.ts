import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import {
  createMessagesClient,
  type Message,
  MessagesError,
  type MessageParams as Params,
} from "../../tests/gateway/messages-client.ts";
import { createMessagesTenant, type MessagesTenant } from "../../tests/gateway/messages-tenant.ts";
import type { Account } from "../../tests/gateway/tenant.ts";

let tenant: MessagesTenant;
beforeAll(async () => {
  tenant = await createMessagesTenant();
});
afterAll(() => tenant.close());

const newId = () => `it-${randomUUID()}`;
const named = (requestId: string, headers: Record<string, string> = {}) => ({
  headers: { "x-request-id": requestId, ...headers },
});
const body = (content: Params["messages"][number]["content"], fields: Partial<Params> = {}): Params => ({
  model: "demo-messages",
  max_tokens: 1_000,
  messages: [{ role: "user", content }],
  ...fields,
});
const weather = { name: "weather", input_schema: { type: "object", properties: {} } };
const unlimitedSearch = { type: "web_search_20250305", name: "web_search" };
const search = { type: "web_search_20250305", name: "web_search", max_uses: 3 };
/**
 * Returns a system prompt that the provider should cache. The default `mark` is unique, so that the prompt is not in the cache
 * yet.
 */
const cached = (ttl: "5m" | "1h", mark = randomUUID()): object[] => [
  { type: "text", text: `${mark} ${"long ".repeat(400)}`, cache_control: { type: "ephemeral", ttl } },
];

/** Expects that the run costs what the provider bills, to the last digit, and that the ledger agrees. */
function expectBilled({ run, truth, charged }: Account): void {
  const used = truth.at(-1)?.usage;
  expect(run).toMatchObject({
    input_tokens: used?.input,
    cached_input_tokens: used?.cachedInput,
    output_tokens: used?.output,
  });
  expect(run.cost_usd).toBe(truth.at(-1)?.billedUsd);
  expect(charged).toBe(run.billed_credits);
}

const whole = (requestId: string, params: Params): Promise<Message> => tenant.messages.create(params, named(requestId));
const streamed = (requestId: string, params: Params): Promise<Message> =>
  tenant.messages.streamWhole(params, named(requestId));

describe.for([
  ["whole", whole],
  ["streamed", streamed],
] as const)("a Messages API call with a %s answer", ([how, ask]) => {
  test.for<[string, () => Partial<Params> & { content?: string }]>([
    ["of plain text", () => ({})],
    ["with thinking", () => ({ thinking: { type: "enabled", budget_tokens: 1_024 }, max_tokens: 2_000 })],
    ["with a tool", () => ({ content: 'call weather with {"city":"Rome"}', tools: [weather] })],
    ["that writes a cache for 5 minutes", () => ({ system: cached("5m") })],
    ["that writes a cache for an hour", () => ({ system: cached("1h") })],
    ["with two searches", () => ({ content: "search 2", tools: [search] })],
    ["that is cut off at its limit", () => ({ max_tokens: 5 })],
  ])("a Messages API call %s is charged what the provider bills", async ([, fields]) => {
    const requestId = newId();
    const { content = "hello there", ...params } = fields();
    const answer = await ask(requestId, body(content, params));
    const account = await tenant.accountOf(requestId);
    expect(account.run).toMatchObject({
      status: "succeeded",
      usage_source: "provider",
      feature: "messages",
      streamed: how === "streamed",
      served_tier: "standard",
    });
    expectBilled(account);
    expect(answer.usage.output_tokens).toBe(account.run.output_tokens);
    expect(answer.platform?.billed_credits).toBe(Number(account.run.billed_credits));
    expect(Number(account.run.cost_usd)).toBeLessThanOrEqual(Number(account.run.reserved_usd));
  });

  test("a Messages API call reads the prompt cache that an earlier call wrote", async () => {
    const system = cached("5m");
    await ask(newId(), body("first", { system }));
    const requestId = newId();
    const answer = await ask(requestId, body("second", { system }));
    expect(answer.usage.cache_read_input_tokens).toBeGreaterThan(100);
    expectBilled(await tenant.accountOf(requestId));
  });

  test("a Messages API call uses a tool and accepts the tool's result", async () => {
    const question = body('call weather with {"city":"Rome"}', { tools: [weather] });
    const called = await ask(newId(), question);
    expect(called.stop_reason).toBe("tool_use");
    const use = called.content.find(({ type }) => type === "tool_use");
    expect([use?.name, use?.input]).toEqual(["weather", { city: "Rome" }]);
    const result = { type: "tool_result" as const, tool_use_id: use?.id, content: "sunny" };
    const messages: Params["messages"] = [
      ...question.messages,
      { role: "assistant", content: called.content },
      { role: "user", content: [result] },
    ];
    const after = await ask(newId(), { ...question, messages });
    expect(JSON.stringify(after.content)).toContain("sunny");
  });

  test.for([
    ["a refusal", "demo-filtered", "hello", "refusal"],
    ["a paused turn", "demo-messages", "[[pause]] hello", "pause_turn"],
  ] as const)(
    "a Messages API call that ends in %s is charged like any other call",
    async ([, provider, content, stop]) => {
      const requestId = newId();
      const model = await tenant.addModel(provider);
      expect((await ask(requestId, body(content, { model }))).stop_reason).toBe(stop);
      expectBilled(await tenant.accountOf(requestId));
    },
  );
});

describe("a streamed Messages API call", () => {
  async function collect(requestId: string, params: Params, leaveAfter = Number.POSITIVE_INFINITY) {
    let events = 0;
    let failure: unknown;
    try {
      for await (const _ of tenant.messages.stream(params, named(requestId))) if (++events === leaveAfter) break;
    } catch (error) {
      failure = error;
    }
    return { failure, account: await tenant.accountOf(requestId) };
  }

  test.for([
    ["demo-error-midway", { type: "overloaded_error", code: "provider_overloaded" }],
    ["demo-cut", { type: "api_error", code: "provider_error" }],
  ] as const)(
    "if the provider %s fails midway through a stream, the Messages API reports an error and charges for the output",
    async ([provider, error]) => {
      const requestId = newId();
      const model = await tenant.addModel(provider);
      const { failure, account } = await collect(
        requestId,
        body("[[words=20 pace=5]]", { model, system: cached("1h") }),
      );
      expect(failure).toBeInstanceOf(MessagesError);
      expect(failure).toMatchObject({ status: undefined, error: { type: "error", error } });
      expect(account.run).toMatchObject({ status: "failed", error_code: error.code });
      expectBilled(account);
    },
  );

  test("when a client disconnects, its streamed Messages API call is cancelled at the provider and charged for what arrived", {
    tags: "needs-stack-server",
  }, async () => {
    const requestId = newId();
    const model = await tenant.addModel("demo-stall");
    const content = "[[words=40]]";
    const stream = tenant.messages.stream(body(content, { model, system: cached("5m") }), {
      ...named(requestId),
      signal: AbortSignal.timeout(300),
    });
    await expect(Array.fromAsync(stream)).rejects.toThrow();
    const account = await tenant.accountOf(requestId);
    expect(account.run).toMatchObject({ status: "cancelled", http_status: 499 });
    expect(account.truth).toMatchObject([{ aborted: true }]);
    expect(account.run.output_tokens).toBeGreaterThan(0);
    expectBilled(account);
  });

  test("a stream falls back to the next route if the provider is overloaded", async () => {
    const requestId = newId();
    const model = await tenant.addModel("demo-error-529", "demo-messages");
    const { failure, account } = await collect(requestId, body("hello", { model }));
    expect(failure).toBeUndefined();
    expect(account.run.attempts?.map(({ failure: why }) => why ?? null)).toEqual(["server_error", null]);
    expectBilled(account);
  });
});

describe("a request to count tokens", () => {
  test("counting tokens returns the provider's count and costs nothing", async () => {
    const requestId = newId();
    const { max_tokens, ...prompt } = body("hello there", { system: "Be brief.", tools: [weather] });
    const { input_tokens } = await tenant.messages.countTokens(prompt, named(requestId));
    const answer = await tenant.messages.create({ ...prompt, max_tokens });
    expect(input_tokens).toBe(answer.usage.input_tokens);
    const { run, charged, truth } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", feature: "count_tokens", input_tokens: 0, output_tokens: 0 });
    expect([Number(run.cost_usd), Number(charged)]).toEqual([0, 0]);
    expect(truth).toMatchObject([{ status: 200, billedUsd: null }]);
  });
});

describe("the credential of a Messages API call", () => {
  const send = (headers: Record<string, string>, path = "/messages") =>
    fetch(`${tenant.client.baseURL}${path}`, {
      method: path === "/messages" ? "POST" : "GET",
      headers: { "content-type": "application/json", ...headers },
      ...(path === "/messages" ? { body: JSON.stringify(body("hello")) } : {}),
    });

  test("a Messages API call may send its credential in either of two headers, or the same credential in both", async () => {
    const bearer = { authorization: `Bearer ${tenant.key}` };
    for (const headers of [bearer, { "x-api-key": tenant.key }, { ...bearer, "x-api-key": tenant.key }]) {
      expect((await send(headers)).status).toBe(200);
    }
  });

  test("refuses a Messages API call with 401 if its two credential headers differ", async () => {
    for (const headers of [
      { authorization: `Bearer ${tenant.key}`, "x-api-key": "other" },
      { authorization: "Bearer other", "x-api-key": tenant.key },
      { authorization: "Basic other", "x-api-key": tenant.key },
    ]) {
      const answer = await send(headers);
      expect([answer.status, await answer.json()]).toMatchObject([401, { error: { type: "authentication_error" } }]);
    }
  });

  test("outside the messages endpoint, x-api-key works only with Anthropic's version header", async () => {
    const key = { "x-api-key": tenant.key };
    expect((await send(key, "/models")).status).toBe(401);
    expect((await send(key, "/key")).status).toBe(401);
    expect((await send({ ...key, "anthropic-version": "2023-06-01" }, "/models")).status).toBe(200);
  });
});

describe("errors of the messages endpoint", () => {
  test.for<[string, () => Promise<unknown>, object]>([
    [
      "a field out of range",
      () => whole(newId(), body("x", { max_tokens: -1 })),
      { status: 400, type: "invalid_request_error" },
    ],
    [
      "an unknown key",
      () => createMessagesClient({ baseUrl: readStack().ai, key: "nonsense" }).create(body("x")),
      { status: 401, type: "authentication_error" },
    ],
    [
      "an unknown model",
      () => whole(newId(), body("x", { model: "no-such-model" })),
      { status: 404, type: "not_found_error" },
    ],
    [
      "a model that is not served here",
      () => whole(newId(), body("x", { model: "demo-chat" })),
      { status: 404, error: { error: { code: "endpoint_not_served" } } },
    ],
    [
      "a provider that fails",
      async () => whole(newId(), body("x", { model: await tenant.addModel("demo-error-500") })),
      { status: 502, type: "api_error", error: { error: { code: "provider_error" } } },
    ],
    [
      "a rate-limited provider",
      async () => whole(newId(), body("x", { model: await tenant.addModel("demo-error-429") })),
      { status: 429, type: "rate_limit_error" },
    ],
  ])("answers with Anthropic's error type for %s", async ([, call, members]) => {
    const failure = await call().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(MessagesError);
    expect(failure).toMatchObject(members);
  });

  test("answers request_too_large to a body of 11 MiB", { tags: "needs-stack-server" }, async () => {
    const failure = await whole(newId(), body("x".repeat(11 * 1024 * 1024))).catch((error: unknown) => error);
    expect(failure).toMatchObject({ status: 413, type: "request_too_large" });
  });

  test("answers 402 billing_error if the balance is used up", async () => {
    const poor = await createMessagesTenant();
    await poor.db.query("update ai.credit_accounts set balance = 0 where workspace_id = $1", [poor.workspaceId]);
    const failure = await poor.messages.create(body("x")).catch((error: unknown) => error);
    expect(failure).toMatchObject({ status: 402, type: "billing_error" });
    await poor.close();
  });

  test("errors carry the request's id in Anthropic's header and in the body", async () => {
    const requestId = newId();
    const failure = await whole(requestId, body("x", { model: "no-such-model" })).catch((error: unknown) => error);
    expect(failure).toMatchObject({ requestId, error: { request_id: requestId } });
  });
});

test("a repeated idempotency key replays the answer, whole and as a stream", async () => {
  await tenant.db.query(
    `insert into ai.workspace_policies (workspace_id, content_capture) values ($1, true)
     on conflict (workspace_id) do update set content_capture = true`,
    [tenant.workspaceId],
  );
  const key = newId();
  const params = body('call weather with {"city":"Rome"}', {
    tools: [weather],
    thinking: { type: "enabled", budget_tokens: 1_024 },
    max_tokens: 2_000,
  });
  const requestId = newId();
  const options = named(requestId, { "idempotency-key": key });
  const first = await tenant.messages.streamWhole(params, options);
  await tenant.accountOf(requestId);
  const replayed = await tenant.messages.streamWhole(params, options);
  expect(replayed).toEqual(first);
});

describe("session ids of coding agents", () => {
  const session = "5f0f9f4e-9d3c-4b0e-8a55-6a1f6f7c2f11";

  test.for<[string, Partial<Params>, Record<string, string>]>([
    ["a header", {}, { "x-claude-code-session-id": session }],
    ["the user id", { metadata: { user_id: `user_${"a".repeat(64)}_account__session_${session}` } }, {}],
    ["the user id as JSON", { metadata: { user_id: JSON.stringify({ device_id: "d", session_id: session }) } }, {}],
  ])("a coding agent's session id in %s becomes the run's label", async ([, fields, headers]) => {
    const requestId = newId();
    await tenant.messages.create(body("hello", fields), named(requestId, headers));
    expect((await tenant.accountOf(requestId)).run.entity_id).toBe(`claude-code:${session}`);
  });

  test("ignores a coding agent's session id if the call has its own label", async () => {
    const requestId = newId();
    const headers = { "x-claude-code-session-id": session, "X-Platform-Entity-Id": "customer-1" };
    await tenant.messages.create(body("hello"), named(requestId, headers));
    expect((await tenant.accountOf(requestId)).run.entity_id).toBe("customer-1");
  });
});

describe("GET /v1/models", () => {
  test("lists models in Anthropic's format for its clients, and in OpenAI's for other clients", async () => {
    const { data } = (await tenant.messages.get("/models")) as { data: { id: string }[] };
    expect(data.find(({ id }) => id === "demo-messages")).toEqual({
      type: "model",
      id: "demo-messages",
      display_name: "Demo messages",
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    });
    const others = (await tenant.client.models.list()).data as unknown as {
      id: string;
      platform: { endpoints: string[] };
    }[];
    const endpointsOf = (model: string) => others.find(({ id }) => id === model)?.platform.endpoints;
    expect(endpointsOf("demo-messages")).toEqual(["/v1/messages"]);
    expect(endpointsOf("demo-agent")).toEqual(["/v1/chat/completions", "/v1/responses", "/v1/messages"]);
    const served = others.filter(({ platform }) => platform.endpoints.includes("/v1/messages"));
    expect(data.map(({ id }) => id)).toEqual(served.map(({ id }) => id));
    expect(served.length).toBeLessThan(others.length);
  });

  test("retrieves a single model, and answers any other with Anthropic's 404 not_found_error", async () => {
    expect(await tenant.messages.get("/models/demo-agent")).toMatchObject({ type: "model", id: "demo-agent" });
    for (const model of ["no-such-model", "demo-chat"]) {
      await expect(tenant.messages.get(`/models/${model}`)).rejects.toMatchObject({
        status: 404,
        type: "not_found_error",
      });
    }
  });

  // Anthropic's SDKs send anthropic-version with each call.
  test.each(["/files", "/chat/completions", "/key", "/models/no-such-model"])(
    "answers Anthropic's clients in Anthropic's format on /v1%s",
    async (path) => {
      const failed = tenant.messages.get(path, { headers: { "x-api-key": "wrong" } });
      await expect(failed).rejects.toMatchObject({ error: { type: "error", request_id: expect.any(String) } });
    },
  );
});

// The demo provider searches as often as the prompt says, at most max_uses times.
test("serves at most five searches of a request that states no limit", async () => {
  for (const [wanted, served] of [
    [2, 2],
    [9, 5],
  ]) {
    const { usage } = await whole(newId(), body(`search ${wanted}`, { tools: [unlimitedSearch] }));
    expect(usage.server_tool_use?.web_search_requests).toBe(served);
  }
});

test("refuses the web search tool as unsupported_parameter if the model has no price for searches", async () => {
  const model = await tenant.addModel("demo-messages");
  await tenant.db.query("update ai.model_prices set valid = tstzrange(lower(valid), now()) where model_id = $1", [
    model,
  ]);
  await tenant.db.query(
    `insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
     values ($1, 'demo_messages', tstzrange(now(), null), 3, 15)`,
    [model],
  );
  const failure = await whole(newId(), body("search 1", { model, tools: [search] })).catch((error: unknown) => error);
  expect(failure).toMatchObject({ status: 400, error: { error: { code: "unsupported_parameter", param: "tools" } } });
  expect((await whole(newId(), body("hello", { model }))).stop_reason).toBe("end_turn");
});
