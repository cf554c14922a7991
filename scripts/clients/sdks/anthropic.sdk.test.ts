import { randomUUID } from "node:crypto";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createMessagesTenant, type MessagesTenant } from "../../../supabase/tests/gateway/messages-tenant.ts";
import { readStack } from "../../test/stack.ts";

let tenant: MessagesTenant;
let anthropic: Anthropic;
beforeAll(async () => {
  tenant = await createMessagesTenant();
  anthropic = new Anthropic({ baseURL: readStack().ai, apiKey: tenant.key, maxRetries: 0 });
});
afterAll(() => tenant.close());

type Params = Anthropic.MessageCreateParamsNonStreaming;
const body = (content: string, fields: Partial<Params> = {}): Params => ({
  model: "demo-messages",
  max_tokens: 1_000,
  messages: [{ role: "user", content }],
  ...fields,
});
const weather: Anthropic.Tool = { name: "weather", input_schema: { type: "object", properties: {} } };

test.for<[string, Partial<Params> & { content: string }]>([
  ["text", { content: "hello there" }],
  ["thinking", { content: "hello", thinking: { type: "enabled", budget_tokens: 1_024 }, max_tokens: 2_000 }],
  ["a tool call", { content: 'call weather with {"city":"Rome"}', tools: [weather] }],
])("Anthropic's client assembles a stream with %s to the message of a whole answer", async ([, fields]) => {
  const { content, ...params } = fields;
  const whole = await anthropic.messages.create(body(content, params));
  const streamed = await anthropic.messages.stream(body(content, params)).finalMessage();
  const kinds = (message: Anthropic.Message) => message.content.map(({ type }) => type);
  expect([kinds(streamed), streamed.stop_reason]).toEqual([kinds(whole), whole.stop_reason]);
  expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens);
});

test("Anthropic's client continues a conversation with a tool's result", async () => {
  const question = body('call weather with {"city":"Rome"}', { tools: [weather] });
  const called = await anthropic.messages.create(question);
  const use = called.content.find(({ type }) => type === "tool_use") as Anthropic.ToolUseBlock;
  const messages: Anthropic.MessageParam[] = [
    ...question.messages,
    { role: "assistant", content: called.content as Anthropic.ContentBlockParam[] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "sunny" }] },
  ];
  expect(JSON.stringify((await anthropic.messages.create({ ...question, messages })).content)).toContain("sunny");
});

test("Anthropic's client counts tokens, and lists and retrieves models", async () => {
  const { max_tokens: _, ...prompt } = body("hello there");
  expect((await anthropic.messages.countTokens(prompt)).input_tokens).toBeGreaterThan(0);
  expect((await anthropic.models.list()).data.map(({ id }) => id)).toContain("demo-messages");
  expect(await anthropic.models.retrieve("demo-agent")).toMatchObject({ type: "model", id: "demo-agent" });
});

describe("errors in Anthropic's client", () => {
  test.for<[string, () => Promise<unknown>, { new (...args: never[]): Error }, object]>([
    [
      "a field out of range",
      () => anthropic.messages.create(body("x", { max_tokens: -1 })),
      Anthropic.BadRequestError,
      { status: 400, type: "invalid_request_error" },
    ],
    [
      "an unknown key",
      () => anthropic.withOptions({ apiKey: "nonsense" }).messages.create(body("x")),
      Anthropic.AuthenticationError,
      { status: 401, type: "authentication_error" },
    ],
    [
      "an unknown model",
      () => anthropic.messages.create(body("x", { model: "no-such-model" })),
      Anthropic.NotFoundError,
      { status: 404, type: "not_found_error" },
    ],
    [
      "a provider that fails",
      async () => anthropic.messages.create(body("x", { model: await tenant.addModel("demo-error-500") })),
      Anthropic.InternalServerError,
      { status: 502, type: "api_error" },
    ],
    [
      "a rate-limited provider",
      async () => anthropic.messages.create(body("x", { model: await tenant.addModel("demo-error-429") })),
      Anthropic.RateLimitError,
      { status: 429, type: "rate_limit_error" },
    ],
  ])("Anthropic's client throws the matching error class for %s", async ([, call, expected, members]) => {
    const failure = await call().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(expected);
    expect(failure).toMatchObject(members);
  });

  test("Anthropic's client reads the request's id of an error", async () => {
    const requestId = `it-${randomUUID()}`;
    const failed = anthropic.messages.create(body("x", { model: "no-such-model" }), {
      headers: { "x-request-id": requestId },
    });
    await expect(failed).rejects.toMatchObject({ requestID: requestId });
  });

  test("Anthropic's client throws an error that arrives in the middle of a stream", async () => {
    const model = await tenant.addModel("demo-error-midway");
    const failed = anthropic.messages.stream(body("[[words=20 pace=5]]", { model })).finalMessage();
    await expect(failed).rejects.toMatchObject({ error: { type: "error", error: { type: "overloaded_error" } } });
  });
});
