import { randomUUID } from "node:crypto";
import type OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { expectTruth } from "../../../tests/gateway/truth.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

type Platform = { schema_valid?: boolean; billed_credits: number };
type Format = { name: string; schema: Record<string, unknown>; strict?: boolean };
const person: Format = {
  name: "person",
  strict: true,
  schema: {
    type: "object",
    properties: { name: { type: "string", minLength: 40 }, age: { type: "integer" } },
    required: ["name", "age"],
    additionalProperties: false,
  },
};

/** The ways to request a structured answer. Each returns the run's metadata. */
const ways = {
  "a chat": async (model: string, format: Format, requestId: string, limit?: number) => {
    const answer = await tenant.client.chat.completions.create(chatOf(model, format, limit), named(requestId));
    return (answer as unknown as { platform: Platform }).platform;
  },
  "a streamed chat": async (model: string, format: Format, requestId: string, limit?: number) => {
    const asked = { ...chatOf(model, format, limit), stream: true as const };
    return lastPlatform(await tenant.client.chat.completions.create(asked, named(requestId)));
  },
  "a streamed chat with server tools": async (model: string, format: Format, requestId: string, limit?: number) => {
    const asked = { ...chatOf(model, format, limit), stream: true as const, platform: { tools: ["calculator"] } };
    return lastPlatform(await tenant.client.chat.completions.create(asked, named(requestId)));
  },
  "a response": async (model: string, format: Format, requestId: string, limit?: number) => {
    const answer = await tenant.client.responses.create(responseOf(model, format, limit), named(requestId));
    return (answer as unknown as { platform: Platform }).platform;
  },
  "a streamed response": async (model: string, format: Format, requestId: string, limit?: number) => {
    const asked = { ...responseOf(model, format, limit), stream: true as const };
    return lastPlatform(await tenant.client.responses.create(asked, named(requestId)));
  },
};

const named = (requestId: string) => ({ headers: { "x-request-id": requestId } });

function chatOf(model: string, format: Format, max_completion_tokens?: number) {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "who?" }];
  return {
    model,
    messages,
    max_completion_tokens,
    response_format: { type: "json_schema" as const, json_schema: format },
  };
}

function responseOf(model: string, format: Format, max_output_tokens?: number) {
  return { model, input: "who?", max_output_tokens, text: { format: { type: "json_schema" as const, ...format } } };
}

async function lastPlatform(events: AsyncIterable<object>): Promise<Platform | undefined> {
  let last: object = {};
  for await (const event of events) last = event;
  return (last as { platform?: Platform }).platform;
}

describe.for(Object.entries(ways))("%s that must conform to a schema", ([way, ask]) => {
  test("an answer that conforms to its schema has schema_valid: true", async () => {
    expect(await ask("demo-chat", person, `it-${randomUUID()}`)).toMatchObject({ schema_valid: true });
  });

  test("a nonconforming answer has schema_valid: false, and is delivered and charged anyway", async () => {
    const requestId = `it-${randomUUID()}`;
    const platform = await ask("demo-bad-schema", person, requestId);
    expect(platform?.schema_valid).toBe(false);
    const account = await tenant.accountOf(requestId);
    expect(account.run).toMatchObject({ status: "succeeded", usage_source: "provider" });
    if (!way.includes("tools")) expectTruth(account);
    expect(Number(account.charged)).toBeGreaterThan(0);
  });

  test("a truncated answer has schema_valid: false and is charged", async () => {
    const requestId = `it-${randomUUID()}`;
    expect(await ask("demo-chat", person, requestId, 5)).toMatchObject({ schema_valid: false });
    expect(Number((await tenant.accountOf(requestId)).charged)).toBeGreaterThan(0);
  });

  test("a schema that does not compile is refused in strict mode, and not used for validation otherwise", async () => {
    const broken = { ...person, schema: { $ref: "#/$defs/missing" } };
    await expect(ask("demo-chat", broken, `it-${randomUUID()}`)).rejects.toMatchObject({
      status: 400,
      code: "unsupported_schema",
      param: way.includes("chat") ? "response_format.json_schema.schema" : "text.format.schema",
    });
    const lax = await ask("demo-chat", { ...broken, strict: false }, `it-${randomUUID()}`);
    expect(lax).toBeDefined();
    expect(lax).not.toHaveProperty("schema_valid");
  });
});

test("validates every choice against the schema, but not an answer that calls a function", async () => {
  const both = await tenant.client.chat.completions.create({ ...chatOf("demo-chat", person), n: 2 });
  expect(both).toMatchObject({ platform: { schema_valid: true } });
  const tools = [{ type: "function" as const, function: { name: "weather" } }];
  const called = await tenant.client.chat.completions.create({ ...chatOf("demo-tools", person), tools });
  expect((called as unknown as { platform: object }).platform).not.toHaveProperty("schema_valid");
});

test("the standard client parses the requested output format", async () => {
  const completion = await tenant.client.chat.completions.parse({
    model: "demo-chat",
    messages: [{ role: "user", content: "add" }],
    response_format: zodResponseFormat(z.object({ sum: z.number(), parts: z.array(z.number()) }), "sum"),
  });
  expect(completion.choices[0]?.message.parsed).toEqual({ sum: expect.any(Number), parts: expect.any(Array) });
  expect(completion).toMatchObject({ platform: { schema_valid: true } });
});
