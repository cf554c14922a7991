import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type PublishedSchemas, readPublishedSchemas } from "../../tests/gateway/openai-schemas.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let faultOf: PublishedSchemas;
beforeAll(async () => {
  faultOf = readPublishedSchemas();
  tenant = await createGatewayTenant();
  await tenant.db.query("insert into ai.workspace_policies (workspace_id, content_capture) values ($1, true)", [
    tenant.workspaceId,
  ]);
}, 90_000);
afterAll(() => tenant.close());

const schema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
const tools = ["calculator"];
const chats: Record<string, object> = {
  plain: {},
  "of two choices": { n: 2 },
  "with reasoning": { model: "demo-reasoning" },
  "that is cut off": { model: "demo-length" },
  "that is filtered": { model: "demo-filtered" },
  "that calls a function": { model: "demo-tools", tools: [{ type: "function", function: { name: "weather" } }] },
  "to a schema": { response_format: { type: "json_schema", json_schema: { name: "sum", schema, strict: true } } },
  "with server tools": { tools, messages: [{ role: "user", content: 'call calculator with {"expression":"6*7"}' }] },
};
const responses: Record<string, object> = {
  plain: {},
  "with reasoning": { model: "demo-reasoning" },
  "that is cut off": { model: "demo-length" },
  "that calls a function": {
    model: "demo-tools",
    tools: [{ type: "function", name: "weather", parameters: {}, strict: false }],
  },
  "to a schema": { text: { format: { type: "json_schema", name: "sum", schema, strict: true } } },
  "with server tools": { tools, input: 'call calculator with {"expression":"6*7"}' },
};

function ask(path: string, body?: object, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(tenant.client.baseURL + path, {
    method: body ? "POST" : "GET",
    headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json", ...headers },
    body: body && JSON.stringify(body),
  });
}

/** Returns the data of all events except the last one. Each must be JSON. */
async function eventsOf(response: Response): Promise<unknown[]> {
  const data = [...(await response.text()).matchAll(/^data: (.*)$/gm)].map(([, text = ""]) => text);
  expect(data.at(-1)).toBe("[DONE]");
  return data.slice(0, -1).map((text) => JSON.parse(text));
}

describe("OpenAI's published schema", () => {
  test.for(Object.entries(chats))(
    "whole, streamed and replayed chats match OpenAI's schema: %s",
    async ([, fields]) => {
      const body = { model: "demo-chat", messages: [{ role: "user", content: "hello" }], ...fields };
      expect(faultOf("chat", await (await ask("/chat/completions", body)).json())).toBeUndefined();
      const key = { "idempotency-key": randomUUID() };
      const streamed = { ...body, stream: true, stream_options: { include_usage: true } };
      const first = await eventsOf(await ask("/chat/completions", streamed, key));
      for (const chunk of first) expect(faultOf("chunk", chunk)).toBeUndefined();
      await expect
        .poll(async () => (await ask("/chat/completions", streamed, key)).headers.get("x-platform-idempotent-replay"))
        .toBe("true");
      const replayed = await eventsOf(await ask("/chat/completions", streamed, key));
      expect(replayed.length).toBeLessThanOrEqual(3);
      for (const chunk of replayed) expect(faultOf("chunk", chunk)).toBeUndefined();
    },
  );

  test.for(Object.entries(responses))(
    "whole, streamed and replayed Responses API answers match OpenAI's schema: %s",
    async ([, fields]) => {
      const body = { model: "demo-chat", input: "hello", ...fields };
      expect(faultOf("response", await (await ask("/responses", body)).json())).toBeUndefined();
      const key = { "idempotency-key": randomUUID() };
      const streamed = { ...body, stream: true };
      for (const event of await eventsOf(await ask("/responses", streamed, key)))
        expect(faultOf("event", event)).toBeUndefined();
      await expect
        .poll(async () => (await ask("/responses", streamed, key)).headers.get("x-platform-idempotent-replay"))
        .toBe("true");
      for (const event of await eventsOf(await ask("/responses", streamed, key)))
        expect(faultOf("event", event)).toBeUndefined();
    },
  );

  test("embeddings and models match OpenAI's schema", async () => {
    const embeddings = { model: "demo-embedding", input: ["one", "two"] };
    expect(faultOf("embeddings", await (await ask("/embeddings", embeddings)).json())).toBeUndefined();
    expect(faultOf("models", await (await ask("/models")).json())).toBeUndefined();
    expect(faultOf("model", await (await ask("/models/demo-chat")).json())).toBeUndefined();
  });

  test.for([
    ["/chat/completions", { model: "demo-chat" }],
    ["/chat/completions", { model: "none", messages: [{ role: "user", content: "x" }] }],
    ["/responses", { model: "demo-error-500", input: "x" }],
    ["/chat/nothing", {}],
  ] as const)("the error of %s %j matches OpenAI's schema", async ([path, body]) => {
    expect(faultOf("error", await (await ask(path, body)).json())).toBeUndefined();
  });

  test("the check against OpenAI's schema rejects a missing field, a wrong type and an unknown event", () => {
    expect(faultOf("chat", { id: "x", object: "chat.completion", created: 1, model: "m" })).toMatch(/^no chat/);
    expect(faultOf("event", { type: "response.output_text.delta", delta: 1 })).toMatch(/^no event/);
    expect(faultOf("event", { type: "response.invented" })).toMatch(/^no event is of type/);
  });
});
