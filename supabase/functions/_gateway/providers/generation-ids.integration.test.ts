import { randomUUID } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

// OpenRouter sends the header with every answer, before the body, so that the generation of a stopped stream is known:
// https://openrouter.ai/docs/guides/features/router-metadata, https://github.com/Toloka/tolokaforge/pull/1242
let generation = "";
let answer: (response: ServerResponse) => void;
const provider = createServer((request, response) => {
  response.setHeader("X-Generation-Id", generation).setHeader("cf-ray", "8c1-FRA");
  request.resume().on("end", () => answer(response));
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  tenant = await createGatewayTenant();
  const { port } = provider.address() as AddressInfo;
  gateway = await openGateway({
    AI_PROVIDER_DEMO_KIND: "openrouter",
    AI_PROVIDER_DEMO_BASE_URL: `http://127.0.0.1:${port}/v1`,
    // OpenRouter also speaks Anthropic's API: https://openrouter.ai/docs/api/api-reference/anthropic-messages/create-messages
    AI_PROVIDER_DEMO_MESSAGES_KIND: "anthropic",
    AI_PROVIDER_DEMO_MESSAGES_BASE_URL: `http://127.0.0.1:${port}/v1`,
    AI_PROVIDER_DEMO_MESSAGES_API_KEY: "key",
  });
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  provider.closeAllConnections();
  provider.close();
});

const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
const chunk = (rest: object) =>
  `data: ${JSON.stringify({ id: "gen-body", object: "chat.completion.chunk", created: 1, model: "m", ...rest })}\n\n`;
const firstChunk = chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "hi" } }] });
const ended = `${chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}${chunk({ choices: [], usage })}data: [DONE]\n\n`;
const json =
  (body: object, status = 200) =>
  (response: ServerResponse) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
const events = (text: string) => (response: ServerResponse) =>
  void response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
const breaking = (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream" }).write(firstChunk);
  setTimeout(() => response.destroy(), 50);
};
const hanging = (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream" }).write(firstChunk);
};
const completion = {
  id: "gen-body",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage,
};
const message = {
  id: "gen-body",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "hi" }],
  stop_reason: "end_turn",
  usage: { input_tokens: 10, output_tokens: 2 },
};
const embedding = {
  object: "list",
  model: "m",
  data: [{ object: "embedding", index: 0, embedding: [0.1] }],
  usage: { prompt_tokens: 1, total_tokens: 1 },
};

const messages = [{ role: "user", content: "x" }];
const chat = { model: "demo-chat", messages };
const fail = { error: { code: 502, message: "Provider returned error" } };

/** Calls the gateway, reads at least the beginning of its answer, and returns the attempts of the run. */
async function attemptsOf(path: string, body: object, { leaves = false } = {}) {
  const requestId = `it-${randomUUID()}`;
  const client = new AbortController();
  const response = await gateway.fetch(`http://gateway.test/v1/${path}`, {
    method: "POST",
    headers: {
      ...(path === "messages" ? { "x-api-key": tenant.key } : { authorization: `Bearer ${tenant.key}` }),
      "content-type": "application/json",
      "x-request-id": requestId,
    },
    body: JSON.stringify(body),
    signal: client.signal,
  });
  if (leaves) {
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    client.abort();
  } else await response.text().catch(() => {});
  await gateway.settled();
  const { run } = await tenant.accountOf(requestId);
  return run.attempts ?? [];
}

describe("the generation id of a call at OpenRouter", () => {
  test.for<[what: string, path: string, body: object, script: typeof answer, options?: { leaves: boolean }]>([
    ["a chat", "chat/completions", chat, json(completion)],
    ["a streamed chat", "chat/completions", { ...chat, stream: true }, events(firstChunk + ended)],
    ["a message", "messages", { model: "demo-messages", messages, max_tokens: 10 }, json(message)],
    ["a response", "responses", { model: "demo-chat", input: "x" }, json(completion)],
    ["an embedding", "embeddings", { model: "demo-embedding", input: "x" }, json(embedding)],
    ["a refused call", "chat/completions", chat, json(fail, 502)],
    ["an unreadable answer", "chat/completions", chat, json({})],
    ["a stream that breaks", "chat/completions", { ...chat, stream: true }, breaking],
    ["a stream that the client leaves", "chat/completions", { ...chat, stream: true }, hanging, { leaves: true }],
  ])("is recorded for %s", async ([, path, body, script, options]) => {
    generation = `gen-${Date.now()}-${randomUUID()}`;
    answer = script;
    const attempts = await attemptsOf(path, body, options);
    expect(attempts.map(({ upstream_request_id }) => upstream_request_id)).toEqual([generation]);
  });
});
