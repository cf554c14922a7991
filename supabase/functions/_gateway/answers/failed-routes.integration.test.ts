import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { type Script, type ScriptedProvider, startScriptedProvider } from "../../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let first: ScriptedProvider;
let second: ScriptedProvider;
let gateway: InProcessGateway;
/** A model with both routes, and one with only the first. */
let both: string;
let alone: string;

beforeAll(async () => {
  [tenant, first, second] = await Promise.all([
    createGatewayTenant(),
    startScriptedProvider(),
    startScriptedProvider(),
  ]);
  both = await createPricedModel(tenant, { providers: ["first", "second"] });
  alone = await createPricedModel(tenant, { providers: ["first"] });
});
afterAll(async () => {
  first.close();
  second.close();
  await tenant.close();
});

type Path = "chat/completions" | "messages" | "responses";
const kindOf = { "chat/completions": "openrouter", messages: "anthropic", responses: "openai" };

/** Opens a gateway whose providers serve the path. No route is cooling down from an earlier test. */
async function open(path: Path): Promise<InProcessGateway> {
  const settings = ["FIRST", "SECOND"].flatMap((name, at) => [
    [`AI_PROVIDER_${name}_KIND`, kindOf[path]],
    [`AI_PROVIDER_${name}_BASE_URL`, [first, second][at]?.url],
    [`AI_PROVIDER_${name}_API_KEY`, "key"],
  ]);
  gateway = await openGateway(Object.fromEntries(settings));
  return gateway;
}
beforeEach(() => async () => gateway.close());

const event = (data: object | string, name = "") =>
  `${name && `event: ${name}\n`}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
const typed = (data: { type: string }) => event(data, data.type);
const stream =
  (...events: string[]): Script =>
  (response) =>
    response.writeHead(200, { "content-type": "text/event-stream" }).end(events.join(""));
const json =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Script =>
  (response) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));

const usage = { input_tokens: 20, output_tokens: 30 };
const chunk = (rest: object) => event({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...rest });
const started = typed({
  type: "message_start",
  message: {
    id: "m",
    type: "message",
    role: "assistant",
    content: [],
    usage: { input_tokens: 12_000, output_tokens: 1 },
  },
} as never);
const created = ["response.created", "response.in_progress"]
  .map((type, sequence_number) =>
    typed({
      type,
      sequence_number,
      response: { id: "resp_1", created_at: 7, status: "in_progress", output: [] },
    } as never),
  )
  .join("");
const message = [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "hi" }] }];

/** The second provider's answers, which cost the same on every path. */
const answers: Record<Path, Script> = {
  "chat/completions": (response, { stream: streams }) => {
    const counts = { prompt_tokens: 20, completion_tokens: 30, total_tokens: 50 };
    const choice = { index: 0, finish_reason: "stop" };
    if (!streams)
      json({ choices: [{ ...choice, message: { role: "assistant", content: "hi" } }], usage: counts })(
        response,
        {} as never,
      );
    else {
      const body = chunk({ choices: [{ ...choice, delta: { role: "assistant", content: "hi" } }] });
      stream(body, chunk({ choices: [], usage: counts }), event("[DONE]"))(response, {} as never);
    }
  },
  messages: (response, { stream: streams }) => {
    const head = { id: "m", type: "message", role: "assistant", model: "m" };
    if (!streams)
      json({ ...head, content: [{ type: "text", text: "hi" }], stop_reason: "end_turn", usage })(response, {} as never);
    else {
      const events = [
        { type: "message_start", message: { ...head, content: [], usage: { input_tokens: 20, output_tokens: 1 } } },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "hi" } },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 30 } },
        { type: "message_stop" },
      ];
      stream(...events.map(typed))(response, {} as never);
    }
  },
  responses: (response, { stream: streams }) => {
    const body = { id: "resp_2", object: "response", status: "completed", output: message, usage };
    if (!streams) json(body)(response, {} as never);
    else {
      const delta = { type: "response.output_text.delta", output_index: 0, delta: "hi" };
      stream(
        created,
        typed(delta),
        typed({ type: "response.completed", response: body } as never),
      )(response, {} as never);
    }
  },
};

/** Sends a call. Returns the answer's status, headers, text and last event, and the run. */
async function ask(path: Path, { model = alone, streams = false, fields = {} as object } = {}) {
  const requestId = `it-${randomUUID()}`;
  const input = path === "responses" ? { input: "hello" } : { messages: [{ role: "user", content: "hello" }] };
  const limit = path === "messages" ? { max_tokens: 100 } : {};
  const answer = await gateway.fetch(`http://gateway.test/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${tenant.key}`, "x-request-id": requestId },
    body: JSON.stringify({ model, stream: streams, ...input, ...limit, ...fields }),
  });
  const text = await answer.text();
  await gateway.settled();
  const { run, charged } = await tenant.accountOf(requestId);
  return { status: answer.status, headers: answer.headers, text, last: lastEvent(text), run, charged, requestId };
}

function lastEvent(text: string): Record<string, never> {
  const data = text.split("\n").findLast((line) => line.startsWith("data: {"));
  return JSON.parse(data?.slice("data: ".length) ?? text);
}

const succeeded = { status: "succeeded", cost_usd: "0.000280000000" };
const failedAs = (failure: string) => [
  { route: 1, failure },
  { route: 2, status: 200 },
];
const overloaded = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };

describe("A money stop", () => {
  // Sources: refusal.test.ts.
  test.for<[string, Path, number, object]>([
    [
      "Anthropic's usage limit",
      "messages",
      400,
      { type: "invalid_request_error", message: "You have reached your specified API usage limits." },
    ],
    [
      "Anthropic's workspace limit",
      "messages",
      400,
      { type: "invalid_request_error", message: "You have reached your specified workspace API usage limits." },
    ],
    [
      "Anthropic's spend limit",
      "messages",
      429,
      { type: "rate_limit_error", details: { error_code: "enforced_spend_limit_reached" } },
    ],
    [
      "OpenAI's inactive billing",
      "responses",
      429,
      { code: "billing_not_active", message: "Your account is not active." },
    ],
    ["OpenRouter's key limit", "chat/completions", 403, { code: 403, message: "Key limit exceeded (total limit)." }],
  ])("moves on to the next route, sets its own aside and is not retried: %s", async ([, path, status, error]) => {
    await open(path);
    first.script = json({ type: "error", error }, status);
    second.script = answers[path];
    const lone = await ask(path);
    expect([lone.status, lone.headers.get("x-should-retry")]).toEqual([502, "false"]);
    expect(lone.headers.has("retry-after")).toBe(false);
    expect(lone.run.attempts).toMatchObject([{ failure: "payment_required", status }]);
    for (let turn = 0; turn < 2; turn += 1) {
      expect((await ask(path, { model: both })).run).toMatchObject({
        ...succeeded,
        attempts: failedAs("payment_required"),
      });
    }
    const before = first.calls;
    const { run } = await ask(path, { model: both });
    expect([first.calls - before, run.attempts]).toMatchObject([0, failedAs("skipped")]);
  });
});

describe("A stream that fails before any output", () => {
  const role = chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] });
  const block = typed({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } } as never);

  // https://github.com/BerriAI/litellm/issues/38153, https://platform.claude.com/docs/en/build-with-claude/streaming
  test.for<[string, Path, string[], string]>([
    ["overloaded_error after message_start", "messages", [started, typed(overloaded)], "provider_overloaded"],
    [
      "overloaded_error after a ping",
      "messages",
      [started, typed({ type: "ping" }), typed(overloaded)],
      "provider_overloaded",
    ],
    ["overloaded_error in an empty block", "messages", [started, block, typed(overloaded)], "provider_overloaded"],
    [
      "api_error after message_start",
      "messages",
      [started, typed({ type: "error", error: { type: "api_error", message: "Internal server error" } } as never)],
      "provider_error",
    ],
    [
      "server_is_overloaded after response.created",
      "responses",
      [created, typed({ type: "error", error: { code: "server_is_overloaded" } } as never)],
      "provider_overloaded",
    ],
    [
      "response.failed after response.created",
      "responses",
      [created, typed({ type: "response.failed", response: { error: { code: "server_error" } } } as never)],
      "provider_error",
    ],
    [
      "an error after the role",
      "chat/completions",
      [role, event({ error: { code: 502, message: "Provider disconnected" } })],
      "provider_error",
    ],
    [
      "the finish reason error",
      "chat/completions",
      [role, chunk({ choices: [{ index: 0, delta: { content: "" }, finish_reason: "error", error: { code: 502 } }] })],
      "provider_error",
    ],
  ])("is answered by the next route, or ends in an event, and is free: %s", async ([, path, events, code]) => {
    await open(path);
    first.script = stream(...events);
    second.script = answers[path];
    const answered = await ask(path, { model: both, streams: true });
    expect(answered.text).toContain('"hi"');
    expect(answered.run).toMatchObject({ ...succeeded, attempts: failedAs("server_error") });
    const lone = await ask(path, { streams: true });
    expect([lone.status, lone.run.error_code, Number(lone.charged)]).toEqual([200, code, 0]);
    expect(lone.last).toMatchObject({ error: { code } });
    if (path === "messages") {
      const type = code === "provider_overloaded" ? "overloaded_error" : "api_error";
      expect(lone.last).toMatchObject({ type: "error", error: { type } });
    }
  });
});

// https://openrouter.ai/docs/api-reference/errors, https://github.com/genkit-ai/genkit/issues/6259
describe("A whole chat with the finish reason error", () => {
  const choice = { index: 0, finish_reason: "error", message: { role: "assistant", content: "" } };

  test.for<[string, object]>([
    ["with an error", { choices: [{ ...choice, error: { code: 502 } }] }],
    ["without an error", { choices: [choice] }],
    [
      "with an error next to a stop",
      { choices: [{ ...choice, finish_reason: "stop", error: { code: 502, message: "x" } }] },
    ],
  ])("is a failed attempt: %s", async ([, body]) => {
    await open("chat/completions");
    first.script = json(body);
    second.script = answers["chat/completions"];
    expect((await ask("chat/completions", { model: both })).run).toMatchObject({
      ...succeeded,
      attempts: failedAs("server_error"),
    });
    const lone = await ask("chat/completions");
    expect([lone.status, Number(lone.charged)]).toEqual([502, 0]);
  });
});

describe("A full context window", () => {
  const words = {
    error: { code: "context_length_exceeded", message: "Your input exceeds the context window of this model." },
  };

  // https://github.com/openai/codex, codex-api/src/sse/responses.rs: only this event makes Codex compact.
  test.for<[string, Script]>([
    ["in response.failed", stream(created, typed({ type: "response.failed", response: words } as never))],
    ["in an error event", stream(created, typed({ type: "error", ...words } as never))],
    ["with status 400", json(words, 400)],
    ["with the code of another provider", json({ error: { code: "1261", message: "Prompt exceeds max length" } }, 400)],
  ])("reaches the client of a streamed response as response.failed: %s", async ([, script]) => {
    await open("responses");
    first.script = script;
    const { status, last, run, text } = await ask("responses", { streams: true });
    expect([status, run.status, run.error_code]).toEqual([200, "failed", "context_length_exceeded"]);
    expect(last).toMatchObject({
      type: "response.failed",
      response: { object: "response", status: "failed", error: { code: "context_length_exceeded" } },
      error: { code: "context_length_exceeded" },
    });
    expect(text).toMatch(/^event: response\.failed$/m);
  });

  test("is 400 for a response that is not streamed", async () => {
    await open("responses");
    first.script = json(words, 400);
    expect((await ask("responses")).status).toBe(400);
  });

  // https://github.com/anthropics/claude-code/issues/86507: Claude Code compacts on the first words, and lowers
  // max_tokens on the second.
  test.for<[string, string]>([
    ["prompt is too long: 208310 tokens > 200000 maximum", "prompt is too long: 208310 tokens > 200000 maximum"],
    [
      "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648",
      "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648",
    ],
    ["prompt token count of 391491 exceeds the limit of 128000", "prompt is too long: 391491 tokens > 128000 maximum"],
    ["Prompt exceeds max length", "prompt is too long: "],
  ])("reaches Claude Code in Anthropic's words: %s", async ([message, shown]) => {
    await open("messages");
    const error = { type: "invalid_request_error", message, code: "model_max_prompt_tokens_exceeded" };
    for (const streams of [false, true]) {
      first.script = json({ type: "error", error }, 400);
      const { status, last } = await ask("messages", { streams });
      expect(status).toBe(400);
      expect(last).toMatchObject({
        type: "error",
        error: {
          type: "invalid_request_error",
          message: expect.stringContaining(shown),
          code: "context_length_exceeded",
        },
      });
    }
  });
});

// https://platform.claude.com/docs/en/api/errors, https://github.com/anthropics/claude-code/issues/8413
test.for<[number, object, number, string, string]>([
  [529, overloaded, 529, "overloaded_error", "provider_overloaded"],
  [503, { error: { message: "The model is overloaded." } }, 529, "overloaded_error", "provider_overloaded"],
  [
    413,
    { type: "error", error: { type: "request_too_large", message: "x" } },
    413,
    "request_too_large",
    "payload_too_large",
  ],
  [500, { type: "error", error: { type: "api_error", message: "x" } }, 502, "api_error", "provider_error"],
])("the Messages API passes on a provider's %i as Anthropic would", async ([sent, body, status, type, code]) => {
  await open("messages");
  first.script = json(body, sent);
  for (const streams of [false, true]) {
    const answer = await ask("messages", { streams });
    expect([answer.status, answer.run.http_status]).toEqual([status, status]);
    expect(answer.last).toMatchObject({ type: "error", error: { type, code } });
  }
});

describe("A streamed response that fails after output", () => {
  const output =
    created +
    typed({ type: "response.output_item.added", output_index: 0, item: { type: "message" } } as never) +
    typed({ type: "response.output_text.delta", output_index: 0, delta: "hi" } as never);
  const failed = (code: string) =>
    typed({ type: "response.failed", response: { error: { code, message: "x" } } } as never);

  // https://github.com/BerriAI/litellm/issues/40243, https://github.com/Menci/Floway/issues/330
  test.for<[string, string, string]>([
    ["the end of the stream", "", "provider_error"],
    ["response.failed", failed("server_error"), "provider_error"],
    ["response.failed for a rate limit", failed("rate_limit_exceeded"), "rate_limit_exceeded"],
    ["response.failed for a full context window", failed("context_length_exceeded"), "context_length_exceeded"],
    ["response.failed for the content", failed("cyber_policy"), "content_filter"],
    ["an error event", typed({ type: "error", code: "server_error", message: "x" } as never), "provider_error"],
    ["an error without a type", event({ error: { message: "x" } }), "provider_error"],
    ["garbage", event("<html>"), "provider_error"],
  ])("ends in response.failed with a code and a top-level error: %s", async ([, end, code]) => {
    await open("responses");
    first.script = stream(output, end);
    const { last, run, text } = await ask("responses", { streams: true });
    expect(last).toMatchObject({
      type: "response.failed",
      sequence_number: 4,
      response: { id: "resp_1", created_at: 7, status: "failed", error: { code, message: expect.any(String) } },
      error: { code, request_id: expect.any(String) },
    });
    expect(run).toMatchObject({ status: "failed", error_code: code });
    for (const data of text.match(/^data: .*/gm) ?? []) expect(JSON.parse(data.slice(6))).toHaveProperty("type");
  });

  test("raises an error in openai-node", async () => {
    await open("responses");
    first.script = stream(output, failed("server_error"));
    const events = await gateway.clientOf(tenant.key).responses.create({ model: alone, input: "x", stream: true });
    const read = async () => {
      for await (const _ of events);
    };
    await expect(read()).rejects.toBeInstanceOf(OpenAI.APIError);
  });
});

describe("Encrypted reasoning of another account", () => {
  const input = [
    { type: "message", role: "user", content: "hello" },
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAA" },
    { type: "message", role: "user", content: "continue" },
  ];
  const foreign = json({ error: { code: "invalid_encrypted_content", message: "could not be verified" } }, 400);
  const down = json({ error: { message: "unavailable" } }, 503);

  // https://github.com/BerriAI/litellm/issues/18094, https://github.com/BerriAI/litellm/issues/21994
  test("after another route's failure, the caller may retry", async () => {
    await open("responses");
    first.script = down;
    second.script = foreign;
    const { status, headers } = await ask("responses", { model: both, fields: { input } });
    expect([status, headers.get("x-should-retry")]).toEqual([502, null]);
  });

  test("the next route is asked, and if it fails, the caller may retry", async () => {
    await open("responses");
    first.script = foreign;
    second.script = answers.responses;
    expect((await ask("responses", { model: both, fields: { input } })).run).toMatchObject({
      ...succeeded,
      attempts: failedAs("invalid_request"),
    });
    second.script = down;
    expect((await ask("responses", { model: both, fields: { input } })).status).toBe(502);
  });

  test("is 400 if every route refuses it", async () => {
    await open("responses");
    first.script = foreign;
    second.script = foreign;
    expect((await ask("responses", { model: both, fields: { input } })).last).toMatchObject({
      error: { code: "invalid_request" },
    });
  });
});
