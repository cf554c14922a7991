import { randomUUID } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { readProviderFixtures } from "@gatehousehq/local-stack/services/provider/fixtures";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

import { formatDecimal, parseDecimal } from "../../_shared/decimal.ts";

/** What the provider does with the next call. */
let answer: (body: { messages?: { role: string }[] }, response: ServerResponse) => void;
const provider = createServer(async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  answer(JSON.parse(text), response);
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
let model: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  tenant = await createGatewayTenant();
  model = await createPricedModel(tenant);
  const { port } = provider.address() as AddressInfo;
  gateway = await openGateway({ AI_PROVIDER_DEMO_BASE_URL: `http://127.0.0.1:${port}/v1` });
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  provider.closeAllConnections();
  provider.close();
});

const json = (response: ServerResponse, body: object) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
const stream = (response: ServerResponse, events: string) =>
  response.writeHead(200, { "content-type": "text/event-stream" }).end(events);

const completion = (usage: unknown, message: object = { content: "hi" }) => ({
  ...{ id: "c", object: "chat.completion", created: 1, model: "m", usage },
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop", logprobs: null }],
});
const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const chunk = (rest: object) => event({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...rest });
const delta = (content: string, rest: object = {}) =>
  chunk({ choices: [{ index: 0, delta: { role: "assistant", content }, finish_reason: null }], ...rest });
const finish = (rest: object = {}, choice: object = {}) =>
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop", ...choice }], ...rest });
const counted = (usage: unknown) => chunk({ choices: [], usage });
const done = "data: [DONE]\n\n";

type Asked = { path?: "chat" | "responses"; inputTokens?: number; fields?: object };

/** Sends a call and reads its answer to the end. Returns the answer, the run and its settled cost. */
async function ask({ path = "chat", inputTokens = 80, fields = {} }: Asked = {}) {
  const requestId = `it-${randomUUID()}`;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const text = "x".repeat(inputTokens);
  const body = { model, ...(path === "chat" ? { messages: [{ role: "user", content: text }] } : { input: text }) };
  const request = { ...body, ...fields } as never;
  const call: Promise<unknown> =
    path === "chat" ? client.chat.completions.create(request) : client.responses.create(request);
  const events: { error?: unknown; usage?: object }[] = [];
  const told = await call.then(async (value) => {
    if (Symbol.asyncIterator in (value as object))
      for await (const each of value as AsyncIterable<object>) events.push(each);
    return value as { usage?: object; platform?: { usage: object } };
  });
  const { run } = await tenant.accountOf(requestId);
  return { told, events, run, usd: formatDecimal(parseDecimal(run.cost_usd)) };
}

const fixtures = readProviderFixtures();
const provided = { status: "succeeded", http_status: 200, usage_source: "provider" };

describe("the usage that a provider states", () => {
  test.for(fixtures.filter(({ surface, states }) => states && (surface === "chat" || surface === "responses")))(
    "charges a run for the stated usage: $name",
    async ({ text, events, surface, states }) => {
      answer = (_, response) =>
        response.writeHead(200, { "content-type": events ? "text/event-stream" : "application/json" }).end(text);
      const { counts = {}, usd } = states ?? {};
      const path = surface === "responses" ? "responses" : "chat";
      const asked = await ask({ path, fields: { stream: events !== undefined } });
      expect(asked.run).toMatchObject({
        ...provided,
        input_tokens: counts.input_tokens,
        cached_input_tokens: counts.cached_input_tokens ?? 0,
        output_tokens: counts.output_tokens,
        reasoning_tokens: counts.reasoning_tokens ?? 0,
      });
      expect(asked.usd).toBe(usd);
    },
  );
});

describe("a stream is charged for its stated usage", () => {
  const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
  const zeros = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

  test.for<[string, string, string]>([
    // https://github.com/northes/go-moonshot/issues/17
    ["in the choice with the finish reason", delta("hi") + finish({}, { usage }) + done, "0.0028"],
    // https://github.com/rmusser01/tldw_chatbook/pull/1627
    [
      "in the choice with the finish reason, and again later",
      delta("hi") + finish({}, { usage }) + counted(usage) + done,
      "0.0028",
    ],
    // https://github.com/Portkey-AI/gateway/issues/1338
    ["in `x_groq`", delta("hi") + finish({ x_groq: { id: "req", usage } }) + done, "0.0028"],
    ["in `x_groq`, alongside zeros", delta("hi") + finish({ x_groq: { usage }, usage: zeros }) + done, "0.0028"],
    // https://github.com/maximhq/bifrost/issues/191
    ["with its finish reason, and again later", delta("hi") + finish({ usage }) + counted(usage) + done, "0.0028"],
    // https://github.com/BerriAI/litellm/issues/17136
    ["before a last chunk without choices", delta("hi") + finish({ usage }) + chunk({ choices: [] }) + done, "0.0028"],
    // https://github.com/ROCm/ATOM/pull/1711
    ["in an event without choices", delta("hi") + finish() + chunk({ usage }) + done, "0.0028"],
    ["in an event with nothing else", delta("hi") + finish() + event({ usage }) + done, "0.0028"],
    // https://github.com/pydantic/pydantic-ai/pull/5170
    ["in a chunk whose choices are null", delta("hi") + finish() + chunk({ choices: null, usage }) + done, "0.0028"],
    // https://github.com/claude-code-best/claude-code/pull/1234
    ["before counts of zero", delta("hi") + finish() + counted(usage) + counted(zeros) + done, "0.0028"],
    // https://github.com/router-for-me/CLIProxyAPI/issues/4053
    [
      "after counts of zero",
      delta("hi", { usage: zeros }) + finish({ usage: zeros }) + counted(usage) + done,
      "0.0028",
    ],
    [
      "as its input first and its output later",
      delta("hi", { usage: { ...usage, completion_tokens: 0, total_tokens: 1000 } }) +
        finish() +
        counted({ prompt_tokens: 0, completion_tokens: 100, total_tokens: 100 }) +
        done,
      "0.0028",
    ],
    // xAI increases its counts with each chunk: https://docs.x.ai/docs/api-reference#chat-completions
    [
      "in each chunk, as it grows",
      delta("hi", { usage: { ...usage, completion_tokens: 1, total_tokens: 1001 } }) +
        delta("there", { usage: { ...usage, completion_tokens: 2, total_tokens: 1002 } }) +
        finish({ usage }) +
        done,
      "0.0028",
    ],
    // https://github.com/perplexityai/api-discussion/issues/209
    ["with its finish reason, and ends without [DONE]", delta("hi") + finish({ usage }), "0.0028"],
    ["after its finish reason, and ends without [DONE]", delta("hi") + finish() + counted(usage), "0.0028"],
    ["in the choice with the finish reason, and ends without [DONE]", delta("hi") + finish({}, { usage }), "0.0028"],
    // https://github.com/anthropics/anthropic-sdk-typescript/issues/734
    [
      "after events that are not chunks",
      event({ type: "ping" }) +
        delta("hi") +
        `event: ping\n${event({ type: "ping" })}` +
        event({}) +
        event({ event: "heartbeat", time: 1 }) +
        delta("there") +
        finish() +
        counted(usage) +
        done,
      "0.0028",
    ],
  ])("charges a stream that reports its usage %s", async ([, events, usd]) => {
    answer = (_, response) => stream(response, events);
    for (const fields of [{}, { stream_options: { include_usage: true } }]) {
      const asked = await ask({ inputTokens: 1000, fields: { stream: true, ...fields } });
      expect(asked.run).toMatchObject({ ...provided, input_tokens: 1000, output_tokens: 100 });
      expect(asked.usd).toBe(usd);
      for (const each of asked.events) expect(each).toMatchObject({ choices: expect.any(Array) });
    }
  });

  test("a stream sent instead of a whole answer is charged for its stated usage, even without [DONE]", async () => {
    for (const events of [delta("hi") + finish({ usage }), delta("hi") + finish({}, { usage })]) {
      answer = (_, response) => stream(response, events);
      const requestId = `it-${randomUUID()}`;
      const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
      const messages = [{ role: "user" as const, content: "x".repeat(1000) }];
      await expect(client.chat.completions.create({ model, messages })).rejects.toMatchObject({ status: 502 });
      const { run } = await tenant.accountOf(requestId);
      expect(run).toMatchObject({ status: "failed", usage_source: "provider", input_tokens: 1000, output_tokens: 100 });
    }
  });
});

describe("a stream that ends without [DONE]", () => {
  const cut = (response: ServerResponse, events: string) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write(events);
    setTimeout(() => response.destroy(), 50);
  };

  test.for([stream, cut])(
    "a finished stream without [DONE] succeeds, and its usage is estimated if the provider states none",
    async (send) => {
      answer = (_, response) => void send(response, delta("hi") + finish());
      const { run } = await ask({ fields: { stream: true } });
      expect(run).toMatchObject({ status: "succeeded", usage_source: "provider_partial", error_code: null });
      expect(run.output_tokens).toBeGreaterThan(0);
    },
  );

  test("a stream without [DONE] fails while a choice is open, and succeeds if all choices finished", async () => {
    const both = delta("hi") + chunk({ choices: [{ index: 1, delta: { content: "ho" } }] }) + finish();
    const fields = { stream: true, n: 2 };
    answer = (_, response) => stream(response, both);
    await expect(ask({ fields })).rejects.toMatchObject({ code: "provider_error" });
    answer = (_, response) => stream(response, both + finish({}, { index: 1 }));
    expect((await ask({ fields })).run.status).toBe("succeeded");
  });

  test("a stream without [DONE] fails if nothing shows that it finished", async () => {
    answer = (_, response) => stream(response, delta("hi"));
    await expect(ask({ fields: { stream: true } })).rejects.toMatchObject({ code: "provider_error" });
  });
});

test("the usage of all steps of an answer is charged, and is stated under OpenAI's field names", async () => {
  const usage = {
    ...{ prompt_tokens: 400, completion_tokens: 25, total_tokens: 12425 },
    ...{ cache_read_input_tokens: 2000, cache_creation_input_tokens: 10000, service_tier: "standard" },
  };
  const call = { id: "t", type: "function", function: { name: "calculator", arguments: '{"expression":"1+1"}' } };
  answer = ({ messages = [] }, response) => {
    const answered = messages.some(({ role }) => role === "tool");
    json(response, completion(usage, answered ? { content: "2" } : { content: null, tool_calls: [call] }));
  };
  const { told, run, usd } = await ask({ inputTokens: 12_400, fields: { platform: { tools: ["calculator"] } } });
  expect(run).toMatchObject({ ...provided, input_tokens: 24_800, cached_input_tokens: 4_000, output_tokens: 50 });
  expect(usd).toBe("0.0528");
  expect(told.usage).toEqual({
    ...{ prompt_tokens: 24_800, completion_tokens: 50, total_tokens: 24_850 },
    ...{ prompt_tokens_details: { cached_tokens: 4_000 }, service_tier: "standard" },
  });
});

test("if a stream without [DONE] states usage in the last chunk of each step, the usage of all steps is charged", async () => {
  const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 };
  const called = { name: "calculator", arguments: '{"expression":"1+1"}' };
  const call = { tool_calls: [{ index: 0, id: "t", type: "function", function: called }] };
  const ping = event({ type: "ping" });
  answer = ({ messages = [] }, response) => {
    const answered = messages.some(({ role }) => role === "tool");
    const said = answered ? delta("2") : chunk({ choices: [{ index: 0, delta: call }] });
    stream(response, ping + said + ping + finish({}, { usage }));
  };
  const asked = await ask({ inputTokens: 2000, fields: { stream: true, platform: { tools: ["calculator"] } } });
  expect(asked.run).toMatchObject({ ...provided, input_tokens: 2000, output_tokens: 200 });
  expect(asked.usd).toBe("0.0056");
});
